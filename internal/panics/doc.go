// Package panics has a panic over one object end at that object: it is logged with the object and counted, and the
// process continues. Reconciles see to that themselves (pkg/reconcile). This package is for what informers call: event
// handlers, index functions and transforms, of which client-go lets a panic end the process.
//
//	safe := panics.NewInformer(informer)
//	safe.AddIndexers(indexers)
//	safe.AddEventHandler(handler)
//	err := safe.Sound(index, namespace) // whether an object of the namespace is missing from the index
//
// An event that a handler could not take enqueues nothing. An object that an index function could not place is in the
// cache, but not in the index. Until it is, lookups that may miss it fail with their key: to take it for absent could
// mean to create it again and again. Code that holds a lock while it calls others has to unlock it by defer.
package panics
