package clienttest

import (
	"context"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// event is one event of the watches of a kind.
type event struct {
	version int
	watch.Event
}

// stream is one watch. Events queue up without limit until they are read, and while the kind is frozen.
type stream struct {
	result chan watch.Event
	more   chan struct{} // holds something when there may be something to send
	done   chan struct{}
	stop   func()

	mu      sync.Mutex
	waiting []watch.Event
	frozen  bool
}

// NewInformer returns a cache of all objects of the example's kind, which runs until ctx ends.
func (s *Server) NewInformer(ctx context.Context, example plan.Object) (cache.SharedIndexInformer, error) {
	kind, err := client.KindOf(example)
	if err != nil {
		return nil, err
	}
	m, _ := client.BuiltIn(kind)
	m.GroupVersionKind = kind
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := newList(m)
			if err != nil {
				return nil, err
			}
			return list, s.List(ctx, m, metav1.NamespaceAll, o, list)
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(kind.GroupKind(), "", nil) // not supported: it lists then
			}
			return s.watch(kind, o.ResourceVersion), nil
		},
	}, example, 0, cache.Indexers{})
	go informer.RunWithContext(ctx)
	return informer, nil
}

// FreezeWatches holds back the events of the kind's watches, so that caches lag. Lists are not held back.
func (s *Server) FreezeWatches(kind schema.GroupVersionKind) { s.freeze(kind, true) }

// ResumeWatches sends what [Server.FreezeWatches] has held back, and holds back no more.
func (s *Server) ResumeWatches(kind schema.GroupVersionKind) { s.freeze(kind, false) }

func (s *Server) freeze(kind schema.GroupVersionKind, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen[kind] = on
	for _, to := range s.streams[kind] {
		to.freeze(on)
	}
}

// LoseEvents drops what [Server.FreezeWatches] has held back: as after an interruption, whose end finds neither the
// objects that came in it and went again, nor an event about them.
func (s *Server) LoseEvents(kind schema.GroupVersionKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, to := range s.streams[kind] {
		to.lose()
	}
}

// watch returns a watch of the events after the version.
func (s *Server) watch(kind schema.GroupVersionKind, version string) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, err := strconv.Atoi(version)
	if err != nil {
		after = s.changes + 1
	}
	to := &stream{
		result: make(chan watch.Event), more: make(chan struct{}, 1), done: make(chan struct{}), frozen: s.frozen[kind],
	}
	to.stop = sync.OnceFunc(func() {
		close(to.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams[kind] = slices.DeleteFunc(s.streams[kind], func(one *stream) bool { return one == to })
	})
	for _, e := range s.history[kind] {
		if e.version > after {
			to.send(e.Event)
		}
	}
	s.streams[kind] = append(s.streams[kind], to)
	go to.run()
	return to
}

// publish sends to all watches of the kind. The caller has the lock.
func (s *Server) publish(kind schema.GroupVersionKind, change watch.EventType, o plan.Object) {
	e := watch.Event{Type: change, Object: o.DeepCopyObject()}
	s.history[kind] = append(s.history[kind], event{s.changes + 1, e})
	for _, to := range s.streams[kind] {
		to.send(e)
	}
}

// ResultChan returns the events (watch.Interface).
func (s *stream) ResultChan() <-chan watch.Event { return s.result }

// Stop ends the watch (watch.Interface).
func (s *stream) Stop() { s.stop() }

func (s *stream) send(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()})
	s.wake()
}

func (s *stream) freeze(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = on
	s.wake()
}

func (s *stream) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = nil
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// next takes out the event that is to be sent next.
func (s *stream) next() (e watch.Event, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen || len(s.waiting) == 0 {
		return e, false
	}
	e, s.waiting = s.waiting[0], s.waiting[1:]
	return e, true
}

func (s *stream) run() {
	defer close(s.result)
	for {
		e, ok := s.next()
		if !ok {
			select {
			case <-s.more:
				continue
			case <-s.done:
				return
			}
		}
		select {
		case s.result <- e:
		case <-s.done:
			return
		}
	}
}

// newList returns an empty list of the kind.
func newList(m client.Mapping) (runtime.Object, error) {
	if m.BuiltIn {
		return scheme.Scheme.New(m.GroupVersion().WithKind(m.Kind + "List"))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(m.GroupVersion().WithKind(m.Kind + "List"))
	return list, nil
}
