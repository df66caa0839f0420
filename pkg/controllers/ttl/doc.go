// Package ttl is the node TTL controller: an annotation of each node says for how many seconds its kubelet
// may cache Secrets and ConfigMaps, which is the longer the more nodes there are.
//
// A program passes what ttl.New(ttl.Options{}) returns to manager.New. For users, docs/ttl.md says what the
// controller does.
//
// A key is a Node. How many nodes there are is known beside the keys: it is the term of the controller
// (plan_size.go), which follows the watch. When the class of that number changes, the nodes are enqueued
// whose annotation is wrong, a few at a time. The controller is a short example of a term.
package ttl
