// Package manager runs controllers: those of Kubernetes, of pkg/controllers, and others.
//
//	m, err := manager.New(config, manager.Options{Controllers: []manager.Controller{
//		deployment.New(deployment.Options{}), replicaset.New(replicaset.Options{Workers: 10}),
//	}})
//	...
//	go func() { ended <- m.Run(ctx) }()
//	err = m.WaitUntilRunning(ctx)
//
// The controllers that are passed run, each with its defaults. A manager has no flags and no globals, handles no
// signals and never ends the process, and there may be several in one process. docs/library.md is the guide.
//
// # A controller
//
// A [Controller] is an entry: a name, the rights that it needs, and an [InitFunc], which builds a [Runner] from a
// [Context]. Nearly always that is a [reconcile.Runner], made by reconcile.New.
//
// # What a manager does
//
// It builds all controllers, waits for the API server, fills the caches, takes part in the election if there is one,
// and runs the controllers while it leads, except for those whose needs the API server does not serve. They are
// stopped before the lease is released. When the API server goes back to an earlier state ([ErrRolledBack]), it
// forgets everything and begins anew.
package manager
