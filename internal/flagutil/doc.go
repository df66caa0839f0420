// Package flagutil checks the values of command line flags, and knows what stands for a default in code.
//
// The options of a controller call these functions in Validate and in New.
package flagutil
