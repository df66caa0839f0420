// Package ignored has the flags of kube-controller-manager that belong to controllers which this build does not have.
//
// [New] returns the flags as a group of options. They are parsed, with the types and the defaults of the original,
// and nothing obeys them. When this build gets a controller, the controller has its flags itself, and those here with
// the same names are left out.
package ignored
