// Package history keeps what controllers have done in files that are bounded in bytes, so that an object that is gone
// still has a story.
//
//	recorder := history.New(history.Options{Dir: dir, Most: 64 << 20})
//	options.Hooks = func(controller string) reconcile.Hooks {
//		return reconcile.Hooks{Applying: recorder.Applying(controller), Decided: recorder.Decided(controller)}
//	}
//	options.Gone = recorder.Gone
//	go recorder.Run(ctx)
//	entries, err := recorder.About(ctx, history.Ref{Kind: "pod", Namespace: "shop", Name: "web-1"})
//
// An [Entry] is made of a fixed list of fields, so no content of an object gets into it. Workers hand entries to one
// goroutine, which writes them. A worker waits until what it is about to delete is in a file, but no longer than a
// moment. [Tell] makes the story of an
// object from the entries of several processes.
package history
