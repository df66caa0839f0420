package informers

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Names of the indexes. Each costs memory and time for every object, so caches have only those that were asked for.
const (
	byController = "controller" // by the uid of the controlling owner
	byOrphanage  = "orphanage"  // objects without one, by namespace
)

// owned is a cache of objects that controllers own.
type owned[T metav1.Object] struct{ store[T] }

// OwnedBy returns the objects of a namespace whose controlling owner has the uid. An owner is in the namespace of what it
// owns: whoever writes its uid into objects of another namespace gains nothing by it (RS-11).
func (s owned[T]) OwnedBy(namespace string, uid types.UID) []T {
	elsewhere := func(o T) bool { return o.GetNamespace() != namespace }
	return slices.DeleteFunc(s.by(byController, string(uid)), elsewhere)
}

// OrphansIn returns the objects of a namespace that no owner controls.
func (s owned[T]) OrphansIn(namespace string) []T { return s.by(byOrphanage, namespace) }

// store is a cache of one type. The objects that it returns, in no order, belong to the cache and must not be written to.
type store[T metav1.Object] struct{ informer cache.SharedIndexInformer }

// newStore adds the indexes that the informer does not have yet. When two controllers ask for the same index, the conflict that
// the second one causes is ignored.
func newStore[T metav1.Object](informer cache.SharedIndexInformer, indexers cache.Indexers) (store[T], error) {
	for name, index := range indexers {
		err := informer.AddIndexers(cache.Indexers{name: index})
		if err == nil {
			continue
		}
		if _, missing := informer.GetIndexer().ByIndex(name, ""); missing != nil {
			return store[T]{}, fmt.Errorf("index a cache by %s: %w", name, err)
		}
	}
	_ = SetWatchErrorHandler(informer) // fails if the informer runs already: whoever asked first has seen to it
	return store[T]{informer}, nil
}

// Informer is what fills the cache.
func (s store[T]) Informer() cache.SharedIndexInformer { return s.informer }

// Get returns the object of that name, the zero T (nil) if there is none.
func (s store[T]) Get(namespace, name string) (found T) {
	o, ok, err := s.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err == nil && ok {
		found, _ = o.(T)
	}
	return found
}

// In returns all objects of a namespace. Its cost grows with the namespace, so it is not for frequent lookups.
func (s store[T]) In(namespace string) []T { return s.by(cache.NamespaceIndex, namespace) }

func (s store[T]) by(index, value string) []T {
	found, err := s.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		// No constructor above lets this happen. To return nothing would be to say that there are no pods, and a
		// controller would create them all.
		panic(fmt.Sprintf("a cache without its index: %v", err))
	}
	all := make([]T, 0, len(found))
	for _, o := range found {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// owners are the indexes by controlling owner.
func owners() cache.Indexers {
	return cache.Indexers{
		byController: func(o any) ([]string, error) {
			if ref := controllerOf(o); ref != nil {
				return []string{string(ref.UID)}, nil
			}
			return nil, nil
		},
		byOrphanage: func(o any) ([]string, error) {
			if object, ok := o.(metav1.Object); ok && controllerOf(o) == nil {
				return []string{object.GetNamespace()}, nil
			}
			return nil, nil
		},
	}
}

func controllerOf(o any) *metav1.OwnerReference {
	object, ok := o.(metav1.Object)
	if !ok {
		return nil
	}
	return metav1.GetControllerOfNoCopy(object)
}
