// Package nodelifecycle is the node lifecycle controller: it declares nodes Unknown that no longer give a sign of
// life, keeps the taints of nodes in step with their conditions, and marks the pods of Unknown nodes as not ready. It
// deletes neither pods nor nodes.
//
// A key is a node. A sign of life is a renewal of its Lease, or a report of its status, and counts from when this
// process has seen it, so that the clocks of nodes do not matter. Leases are recorded and enqueue nothing by
// themselves: a node is looked at when its grace period could be over. Before it is declared Unknown, its Lease is
// read live.
//
// Everything is a level, and follows from what there is at each look: which taints belong to the conditions, which
// pods are to be marked. When the next node of a zone may get a NoExecute taint follows from when the last one got
// its own, which the taint itself says. How zones do is a value of the cluster ([zones]).
//
// A program passes what nodelifecycle.New(nodelifecycle.Options{}) returns to manager.New. For users,
// docs/nodelifecycle.md says what the controller does.
package nodelifecycle
