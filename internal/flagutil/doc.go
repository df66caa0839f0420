// Package flagutil checks the values of command line flags, knows what stands for a default in code, and guesses what a
// misspelt name was meant to be.
//
// The options of a controller call these functions in Validate and in New. [Closest] is for messages about names that
// nobody knows.
package flagutil
