// Package ttl is the node TTL controller: an annotation of each node says for how many seconds its kubelet may cache Secrets and
// ConfigMaps, which is the longer the more nodes there are.
//
// A program passes what ttl.New(ttl.Options{}) returns to manager.New. For users, docs/ttl.md says what the controller does.
package ttl
