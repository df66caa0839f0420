// Package selection decides which controllers are on (CLI-12, CLI-50..56, CLI-82).
//
// [Controllers] is the flag --controllers. It knows the names of the controllers of kube-controller-manager, whether
// or not this build has them, and those of the registry. [Controllers.Resolve] returns what the flag selects, and
// [Controllers.Handover] the values with which kube-controller-manager and this manager share the controllers of a
// cluster.
package selection
