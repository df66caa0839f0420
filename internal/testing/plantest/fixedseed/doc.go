// Package fixedseed makes the properties that rapid checks draw the same inputs in each run of the tests: a commit
// that has passed passes again. A test package that uses rapid imports it for that effect, unless it imports
// plantest, which does.
//
// Other inputs are drawn with the environment variable RAPID_SEED or the flag -rapid.seed, as "make nightly" does;
// a seed of 0 is a random one.
package fixedseed
