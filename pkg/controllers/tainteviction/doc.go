// Package tainteviction is the taint eviction controller: it deletes pods from nodes whose NoExecute taints they do
// not tolerate, or not any longer.
//
// A key is a pod. When it is due follows from the taints of its node, from its tolerations, and from when each taint
// began: that is remembered for each pod by its uid, and survives a restart by the time that the taint itself has.
// Whatever changes, it is computed anew. Before a pod is deleted, its node is read live, because the caches of pods
// and nodes may be of different ages.
//
// A program passes what tainteviction.New(tainteviction.Options{}) returns to manager.New. For users,
// docs/tainteviction.md says what the controller does.
package tainteviction
