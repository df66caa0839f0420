// Package patch makes the bodies of patches: the difference between an object as it was observed and as it should be, and what is
// applied by server-side apply. Package client sends them.
//
// A [Form] says how a difference is written, and [Form.Difference] writes it. [Applied] writes what is applied.
package patch
