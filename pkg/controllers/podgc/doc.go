// Package podgc removes pods that nobody will clean up otherwise: finished ones when there are too many, those that are
// being deleted on nodes that are out of service or before they had a node, and those whose node is gone.
//
// A program passes what podgc.New(podgc.Options{}) returns to manager.New. For users, docs/podgc.md says what the controller does.
package podgc
