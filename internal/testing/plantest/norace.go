//go:build !race

package plantest

// Race says whether the test runs under the race detector: see race.go.
const Race = false
