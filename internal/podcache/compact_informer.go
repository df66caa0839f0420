package podcache

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// compactInformer is an informer of pods whose cache has compact pods. Whoever uses it sees pods.
//
// Its objects are transformed before it gets them. An informer itself would transform the initial events of a watch
// twice, and all pods would exist twice for a while.
type compactInformer struct {
	cache.SharedIndexInformer
	interner *interner
}

// SetTransform implements cache.SharedIndexInformer.
func (i compactInformer) SetTransform(cache.TransformFunc) error { return nil }

// GetStore implements cache.SharedIndexInformer.
func (i compactInformer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer implements cache.SharedIndexInformer.
func (i compactInformer) GetIndexer() cache.Indexer {
	return compactIndexer{i.SharedIndexInformer.GetIndexer(), i.interner}
}

// AddIndexers implements cache.SharedIndexInformer.
func (i compactInformer) AddIndexers(indexers cache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(ofExpanded(indexers))
}

// AddEventHandler implements cache.SharedIndexInformer.
func (i compactInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(expandingHandler{h})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedIndexInformer.
func (i compactInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(expandingHandler{h}, period)
}

// AddEventHandlerWithOptions implements cache.SharedIndexInformer.
func (i compactInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(expandingHandler{h}, o)
}

// expandingHandler hands on pods for compact pods.
type expandingHandler struct{ handler cache.ResourceEventHandler }

// OnAdd implements cache.ResourceEventHandler.
func (h expandingHandler) OnAdd(o any, initial bool) { h.handler.OnAdd(Expanded(o), initial) }

// OnUpdate implements cache.ResourceEventHandler.
func (h expandingHandler) OnUpdate(before, after any) {
	h.handler.OnUpdate(Expanded(before), Expanded(after))
}

// OnDelete implements cache.ResourceEventHandler.
func (h expandingHandler) OnDelete(o any) { h.handler.OnDelete(Expanded(o)) }

// compactIndexer stores compact pods, and takes and returns pods.
type compactIndexer struct {
	cache.Indexer
	interner *interner
}

// Add implements cache.Store.
func (s compactIndexer) Add(o any) error { return s.Indexer.Add(s.stored(o)) }

// Update implements cache.Store.
func (s compactIndexer) Update(o any) error { return s.Indexer.Update(s.stored(o)) }

// Replace implements cache.Store.
func (s compactIndexer) Replace(all []any, version string) error {
	stored := make([]any, len(all))
	for i, o := range all {
		stored[i] = s.stored(o)
	}
	return s.Indexer.Replace(stored, version)
}

// stored returns what is stored of an object.
func (s compactIndexer) stored(o any) any {
	if p, ok := o.(*corev1.Pod); ok {
		return s.interner.compact(p.DeepCopy())
	}
	return o
}

// List implements cache.Store.
func (s compactIndexer) List() []any { return allExpanded(s.Indexer.List()) }

// Get implements cache.Store.
func (s compactIndexer) Get(o any) (any, bool, error) {
	found, ok, err := s.Indexer.Get(o)
	return Expanded(found), ok, err
}

// GetByKey implements cache.Store.
func (s compactIndexer) GetByKey(key string) (any, bool, error) {
	found, ok, err := s.Indexer.GetByKey(key)
	return Expanded(found), ok, err
}

// Index implements cache.Indexer.
func (s compactIndexer) Index(name string, o any) ([]any, error) {
	found, err := s.Indexer.Index(name, o)
	return allExpanded(found), err
}

// ByIndex implements cache.Indexer.
func (s compactIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := s.Indexer.ByIndex(name, value)
	return allExpanded(found), err
}

// AddIndexers implements cache.Indexer.
func (s compactIndexer) AddIndexers(indexers cache.Indexers) error {
	return s.Indexer.AddIndexers(ofExpanded(indexers))
}

// allExpanded replaces the compact pods in a list.
func allExpanded(all []any) []any {
	for i := range all {
		all[i] = Expanded(all[i])
	}
	return all
}

// ofExpanded lets index functions see pods.
func ofExpanded(indexers cache.Indexers) cache.Indexers {
	wrapped := cache.Indexers{}
	for name, index := range indexers {
		wrapped[name] = func(o any) ([]string, error) { return index(Expanded(o)) }
	}
	return wrapped
}
