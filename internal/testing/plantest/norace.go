//go:build !race

package plantest

// Race tells whether the test runs under the race detector: see race.go.
const Race = false
