package metadata

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// cacheSource takes the objects of one resource from a cache. Each feed is a handler of the cache's informer.
type cacheSource struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	handlers map[*feed]*cacheHandler // under the lock of the informers
}

// join implements source.
func (s *cacheSource) join(ctx context.Context, f *feed, running *sync.WaitGroup) {
	h := &cacheHandler{feed: f, ended: make(chan struct{}), unseen: maps.Clone(f.known)}
	s.handlers[f] = h
	logger := klog.FromContext(ctx)
	registered, err := s.informer.AddEventHandlerWithOptions(h, cache.HandlerOptions{Logger: &logger})
	if err != nil { // the informer has ended
		logger.Error(err, "Cannot follow a cache", "resource", s.resource.GroupResource().String())
		return
	}
	h.registered = registered
	running.Go(func() {
		select {
		case <-registered.HasSyncedChecker().Done():
			h.synced()
		case <-h.ended:
		}
	})
}

// leave implements source.
func (s *cacheSource) leave(f *feed) (unused bool) {
	h := s.handlers[f]
	delete(s.handlers, f)
	close(f.ended)
	s.end(h)
	return len(s.handlers) == 0
}

// stop implements source. The cache does not end with its feeds.
func (s *cacheSource) stop() {
	for _, h := range s.handlers {
		s.end(h)
	}
}

// end ends a handler of the cache.
func (s *cacheSource) end(h *cacheHandler) {
	h.end()
	if h.registered != nil {
		_ = s.informer.RemoveEventHandler(h.registered) // it fails only if the handler is not there any more
	}
}

// cacheHandler hands on to a feed what becomes of the objects of a cache.
type cacheHandler struct {
	registered cache.ResourceEventHandlerRegistration

	mu     sync.Mutex // held while the feed is called
	feed   *feed
	ended  chan struct{}
	unseen versions // what the feed knew from an earlier time, and has not been shown yet
}

// OnAdd implements cache.ResourceEventHandler.
func (h *cacheHandler) OnAdd(o any, _ bool) { h.notify(func() { h.update(metadataOf(o)) }) }

// OnUpdate implements cache.ResourceEventHandler. An object may have been replaced by another one of its name while
// nothing was watched.
func (h *cacheHandler) OnUpdate(before, after any) {
	h.notify(func() {
		is := metadataOf(after)
		if was, err := meta.Accessor(before); err == nil && was.GetUID() != is.UID {
			h.feed.delete(missed(metadataOf(before)))
		}
		h.update(is)
	})
}

// OnDelete implements cache.ResourceEventHandler.
func (h *cacheHandler) OnDelete(o any) {
	h.notify(func() {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			h.feed.delete(missed(metadataOf(last.Obj)))
			return
		}
		h.feed.delete(metadataOf(o))
	})
}

// tell calls a function of the handler, unless that has ended.
func (h *cacheHandler) notify(what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.ended:
	default:
		what()
	}
}

// update is called under the lock.
func (h *cacheHandler) update(o *metav1.PartialObjectMetadata) {
	delete(h.unseen, identityOf(o))
	h.feed.update(o)
}

// synced says that the feed has all that is in the cache. What it knew from an earlier time and was not shown is gone.
func (h *cacheHandler) synced() {
	h.notify(func() {
		for id := range h.unseen {
			h.feed.delete(id.object())
		}
		h.unseen = nil
		close(h.feed.synced)
	})
}

// end has the feed called no more. It may be called again.
func (h *cacheHandler) end() {
	h.notify(func() { close(h.ended) })
}

// metadataOf returns the metadata of an object of a cache, with which it shares its lists and maps.
func metadataOf(o any) *metav1.PartialObjectMetadata {
	accessor, err := meta.Accessor(o)
	if err != nil {
		panic(fmt.Sprintf("a cache of %T: %v", o, err)) // no informer holds such objects
	}
	if whole, ok := accessor.(metav1.ObjectMetaAccessor); ok {
		accessor = whole.GetObjectMeta()
	}
	if of, ok := accessor.(*metav1.ObjectMeta); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: *of}
	}
	return meta.AsPartialObjectMetadata(accessor)
}

// missed returns what the handler gets of an object whose deletion was not seen.
func missed(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return identityOf(o).object()
}
