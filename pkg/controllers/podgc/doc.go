// Package podgc removes pods that nobody will clean up otherwise: finished ones when there are too many,
// those that are being deleted on nodes that are out of service or before they had a node, and those whose
// node is gone.
//
// A program passes what podgc.New(podgc.Options{}) returns to manager.New. For users, docs/podgc.md says what
// the controller does.
//
// A key is a rule, and the clock enqueues it. None waits for another. Observe finds the pods that a rule may
// have to do with, by indexes of the cache. Before a pod is removed because of its node, the plan asks for a
// live read of that. The rule about nodes that are gone also asks for a list of all nodes, and counts how
// many have vanished (plan_nodes.go). If they are too many, the brake holds it.
package podgc
