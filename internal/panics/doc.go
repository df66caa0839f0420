// Package panics has a panic over one object end at that object: it is logged with the object and counted, and the process continues. Reconciles see to
// that themselves (pkg/reconcile). This package is for what informers call: event handlers, index functions and transforms, of which client-go
// lets a panic end the process.
//
//	safe := panics.NewInformer(informer)
//	safe.AddIndexers(indexers)
//	safe.AddEventHandler(handler)
//	err := safe.Sound(index, namespace) // whether an object of the namespace is missing from the index
package panics
