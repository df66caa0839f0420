// Package namespace is the namespace controller. It empties namespaces that are being deleted, and releases them when
// nothing is left in them.
//
// A program passes what namespace.New(namespace.Options{}) returns to manager.New. For users, docs/namespace.md says
// what the controller does.
//
// A namespace is emptied in rounds. Each round lists the metadata of what a namespace can hold, live, and deletes the
// collections that have objects. Pods go first: while one exists, nothing else is touched, so that network policies
// and the like outlive the pods (NS-18). When objects cannot come any more (NS-4), and after the last one has gone a
// round that lists everything finds all resources empty, the finalizer of the namespace is removed (NS-28, NS-36).
package namespace
