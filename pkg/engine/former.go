package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// former is what others have written for our keys before this process began to lead. Caches may lack it, and each kind's for
// another time: one shows a ReplicaSet that a former leader has made, another one none of the pods that it has made for it.
type former struct {
	mu    sync.Mutex
	marks map[schema.GroupVersionKind]string // how far the server was, by kind, when we led already; nil until it has said so
	shown bool
}

// shownBy reports whether the caches show all of it. Once they do, they always will.
func (f *former) shownBy(caches *Freshness) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.marks == nil || f.shown {
		return f.shown
	}
	for kind, mark := range f.marks {
		if !caches.reached(kind, mark) {
			return false
		}
	}
	f.shown = true
	return true
}

// ask asks the server how far it is, until it has answered or ctx ends.
func (f *former) ask(ctx context.Context, server Versions, watches []Watch) {
	for ctx.Err() == nil {
		marks, err := marksOf(ctx, server, watches)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.marks = marks
			return
		}
		klog.FromContext(ctx).V(4).Info("Does not know yet how far the server is, reads live what it has not seen before", "err", err.Error())
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func marksOf(ctx context.Context, server Versions, watches []Watch) (map[schema.GroupVersionKind]string, error) {
	marks := map[schema.GroupVersionKind]string{}
	for _, w := range watches {
		resource, _ := meta.UnsafeGuessKindToResource(w.Kind)
		version, err := server.Version(ctx, resource)
		if err != nil {
			return nil, err
		}
		marks[w.Kind] = version
	}
	return marks, nil
}

// askFormer asks until the returned function is called. It is of use only where caches can be compared with the server.
func (r *Runner[S]) askFormer(ctx context.Context) (stop func()) {
	if !r.comparable() || r.shared.Versions == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func(f *former) {
		defer close(done)
		f.ask(ctx, r.shared.Versions, r.Watches)
	}(r.former)
	return func() {
		cancel()
		<-done
	}
}

// unknown reports whether an object that has just come into a cache, and that a key is named after, may be one for which
// others have written what the caches don't show.
func (r *Runner[S]) unknown(f *former, w Watch) bool {
	return slices.Contains(r.Kinds, w.Kind.Kind) && !f.shownBy(r.shared.Freshness)
}
