// Package informers holds the caches that all controllers of a process share: one per kind, with an index for every
// frequent lookup (CI-9, RS-63).
//
// A controller asks for a cache while it is built, and says which fields it reads:
//
//	deployments, err := informers.Objects[*appsv1.Deployment](c.Informers)
//	pods, err := informers.Pods(c.Informers, informers.PodFields{Paths: []string{"status.phase"}})
//
// What it gets is a typed store, which also makes the watch of its kind:
//
//	Watches: []reconcile.Watch{
//		deployments.Watch(informers.Itself, informers.WithResync),
//		pods.Watch(owners.Enqueues),
//	}
//
// The cache of a kind keeps the fields that any controller reads, and all fields if one of them names none. So no
// controller can empty the fields of another one.
//
// Objects are projected to these fields before they are cached (package projection), and equal parts of several objects
// are held once (interning). Lists and watches that fail are retried within seconds, their errors are logged at a
// limited rate, and [WatchLiveness] reports which watches are alive.
package informers
