package panics

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Informer is an informer whose event handlers and index functions end no process. What an index function could not
// place is not taken for absent: see [Informer.Sound].
type Informer struct {
	cache.SharedIndexInformer
	unplaced *unplaced
}

// NewInformer wraps an informer.
func NewInformer(of cache.SharedIndexInformer) Informer {
	return Informer{of, &unplaced{by: map[string]map[string]version{}}}
}

// AddEventHandler implements cache.SharedIndexInformer.
func (i Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(handler{h})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedIndexInformer.
func (i Informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler{h}, period)
}

// AddEventHandlerWithOptions implements cache.SharedIndexInformer.
func (i Informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler{h}, o)
}

// SetTransform implements cache.SharedIndexInformer.
func (i Informer) SetTransform(f cache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(TransformFunc(f))
}

// AddIndexers implements cache.SharedIndexInformer.
func (i Informer) AddIndexers(indexers cache.Indexers) error {
	safe := cache.Indexers{}
	for name, index := range indexers {
		safe[name] = i.unplaced.indexFunc(name, index)
	}
	return i.SharedIndexInformer.AddIndexers(safe)
}

// Sound returns an error if an object of the namespace that is in the cache is missing from an index, because its
// function has panicked over it. The empty namespace stands for all, and the empty index for any. Whoever takes a
// lookup for complete asks before, as to take such an object for absent may be to create it again and again.
func (i Informer) Sound(index, namespace string) error {
	for _, key := range i.unplaced.keys(index, namespace) {
		if _, exists, err := i.GetIndexer().GetByKey(key); err == nil && exists {
			return fmt.Errorf("the index %q lacks %s, over which its function has panicked", index, key)
		}
	}
	return nil
}

// handler is an event handler of which a panic ends at the object.
type handler struct{ next cache.ResourceEventHandler }

// OnAdd implements cache.ResourceEventHandler.
func (h handler) OnAdd(o any, initial bool) {
	defer Contain(Handler, o)
	h.next.OnAdd(o, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h handler) OnUpdate(before, after any) {
	defer Contain(Handler, after)
	h.next.OnUpdate(before, after)
}

// OnDelete implements cache.ResourceEventHandler.
func (h handler) OnDelete(o any) {
	defer Contain(Handler, o)
	h.next.OnDelete(o)
}

// unplaced are the objects that indexes lack.
type unplaced struct {
	some atomic.Bool // there may be one

	mu sync.Mutex
	by map[string]map[string]version // by index and key
}

// version is one of an object.
type version struct {
	namespace string
	uid       types.UID
	of        string
}

// indexFunc returns the index function, of which a panic leaves a version of an object out. When it is asked what the
// index has of that version, to take it off, the answer is nothing.
func (u *unplaced) indexFunc(index string, f cache.IndexFunc) cache.IndexFunc {
	return func(o any) (values []string, err error) {
		if u.some.Load() && u.has(index, o) {
			return nil, nil
		}
		placed := false
		defer func() {
			if placed {
				return
			}
			m, wrong := meta.Accessor(o)
			if wrong != nil {
				panic(recover()) // it is what is looked up that is wrong, and whoever looks bears it
			}
			note(Index, o, recover())
			u.note(index, m)
		}()
		values, err = f(o)
		placed = true
		return values, err
	}
}

// keyOf is the key of an object, as caches have it.
func keyOf(o metav1.Object) string {
	return cache.NewObjectName(o.GetNamespace(), o.GetName()).String()
}

// has reports whether an index lacks this version of an object. Another one of the object takes its place.
func (u *unplaced) has(index string, o any) bool {
	m, err := meta.Accessor(o)
	if err != nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	lacks, known := u.by[index][keyOf(m)]
	if known && lacks.uid == m.GetUID() && lacks.of == m.GetResourceVersion() {
		return true
	}
	if delete(u.by[index], keyOf(m)); len(u.by[index]) == 0 {
		delete(u.by, index)
	}
	u.some.Store(len(u.by) > 0)
	return false
}

// note notes that an index lacks an object.
func (u *unplaced) note(index string, o metav1.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by[index] == nil {
		u.by[index] = map[string]version{}
	}
	u.by[index][keyOf(o)] = version{o.GetNamespace(), o.GetUID(), o.GetResourceVersion()}
	u.some.Store(true)
}

// keys returns the objects of a namespace that an index lacks.
func (u *unplaced) keys(index, namespace string) (keys []string) {
	if !u.some.Load() {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for of, lacks := range u.by {
		if index != "" && of != index {
			continue
		}
		for key, lacked := range lacks {
			if namespace == "" || lacked.namespace == namespace {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
