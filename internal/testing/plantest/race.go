//go:build race

package plantest

// Race says whether the test runs under the race detector, where everything takes about ten times as long. Tests
// whose number of tries proves something that has nothing to do with races make fewer of them there: "make test"
// runs them without it, too.
const Race = true
