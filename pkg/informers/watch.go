package informers

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// WatchOption changes a watch.
type WatchOption func(*reconcile.Watch)

// Watch returns the watch of the cache. enqueues maps a change to keys: before is nil for a new object, after for a
// deleted one. [Itself] and [Owners] are what it mostly is. It must be quick.
func (s Store[T]) Watch(enqueues func(before, after plan.Object) []plan.Key, options ...WatchOption) reconcile.Watch {
	w := reconcile.Watch{Kind: s.kind, Informer: s.informer, Enqueues: enqueues}
	if s.optional {
		w.Missing = s.gate.Missing
	}
	for _, change := range options {
		change(&w)
	}
	return w
}

// WithResync is the option of a watch whose re-deliveries of unchanged objects enqueue, too (CI-14).
func WithResync(w *reconcile.Watch) { w.Resync = true }

// WithChanges is the option of a watch that hands the changes themselves to the next Observe of the keys.
func WithChanges(w *reconcile.Watch) { w.Record = true }

// WithLatest is like [WithChanges], but of the changes of one object only the latest one is handed on: for objects
// that change often, such as Leases.
func WithLatest(w *reconcile.Watch) { w.RecordLatest = true }

// WithNews is like [WithChanges], but not for objects that were there before the controller began.
func WithNews(w *reconcile.Watch) { w.RecordNews = true }

// WithDelay returns the option of a watch with some time between a change and the reconcile of a key that it
// enqueues. If it is negative, the change is only recorded, for a key that is reconciled in time anyway.
func WithDelay(delay func(plan.Key) time.Duration) WatchOption {
	return func(w *reconcile.Watch) { w.Delay = delay }
}

// Ignoring returns the option of a watch that enqueues nothing for some new objects, unless they were there before
// the controller began (EP-7).
func Ignoring(ignore func(added plan.Object) bool) WatchOption {
	return func(w *reconcile.Watch) { w.Ignore = ignore }
}

// None enqueues no key: the objects are only looked up.
func None(_, _ plan.Object) []plan.Key { return nil }
