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
//  1. [New] builds all controllers, with clients and caches, without a request.
//  2. [Manager.Run] waits until the API server is healthy, for as long as that takes. It does not give up, because a
//     restart would not bring the API server back sooner.
//  3. It fills the caches, so that a standby is warm, and takes part in the election if there is one.
//  4. While it leads, it runs the controllers, except for those whose needs the API server does not serve. Only then
//     do they add their event handlers, so a standby has no queues.
//  5. In the end it stops them and waits for them, and then the lease is released. If one of them does not stop in
//     time, the lease is kept ([ErrShutdownTimeout]): it may still write.
//
// When the API server goes back to an earlier state ([ErrRolledBack]), it forgets everything and begins anew.
package manager
