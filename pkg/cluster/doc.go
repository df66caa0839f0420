// Package cluster has values that concern all keys of a controller: how many nodes there are, how zones do, which addresses are taken.
//
// A [Value] follows from the objects that watches show. It is made from the caches when the controller begins to work, and changes with each
// change of an object, by a pure function that tests can call. Observe reads it and puts it, or what matters of it to the key, into the
// snapshot. When it changes in a way that concerns keys, these are reconciled, a few at a time:
//
//	zones := cluster.New(cluster.Options[zones]{First: k.allZones, Next: zones.next, Concerns: ..., Keys: k.nodesOf})
//	reconcile.Controller[...]{
//		Watches: []reconcile.Watch{zones.Follow(nodes.Watch(informers.Itself))},
//		Source:  zones.Source,
//		...
//	}
package cluster
