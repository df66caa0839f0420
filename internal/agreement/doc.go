// Package agreement compares what an observer plans with what whoever leads then writes.
//
//	c := agreement.New(agreement.Options{Count: measured.Compared})
//	options.Hooks = func(controller string) reconcile.Hooks { return c.Hooks(controller, measured.Hooks(controller)) }
//	options.Caches = c.Follow
//	mux.Handle("/debug/agreement", c)
//
// A planned write of one object is pending from the first plan that has it. When the plans of its key have it no more,
// the caches show whether it was done (agreed), whether something else was done in its place (disagreed), or whether
// what it was planned for has changed first (superseded). What is planned for 50 s and not done is a disagreement,
// too. Writes are matched by what they mean: names that are made up, the sizes of batches and statuses on the way to
// the same end differ from manager to manager.
//
// A write that no plan had is judged by what follows from it: if our plans would undo it, that is not done, which is a
// disagreement. What whoever leads does unasked, and no plan would undo, is not noticed.
package agreement
