// Package metrics measures a manager, and serves what was measured (MH-20..34).
//
// What the libraries measure (work queues, requests, the election, the Go runtime, the process) they register
// globally, in component-base's registry; importing this package makes them do so. The metrics of the runtime join
// them there:
//
//	measured := metrics.New(version.Get())
//	options.Hooks, options.RegisterMetrics = measured.Hooks, measured.Register
//	m, err := manager.New(config, options)
//	...
//	defer measured.Follow(m)()
//	mux.Handle("/metrics", metrics.Handler())
//	mux.Handle("/metrics/slis", metrics.SLIHandler())
//	err = m.Run(ctx)
//
// It must be built before the manager, whose clients and queues are measured from their beginning. Who embeds the
// manager and wants none of this does not import this package. No label takes more values in a larger cluster, but
// for the namespace in the counters of the pod garbage collector, which the contract asks for (MH-31).
package metrics
