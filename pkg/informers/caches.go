package informers

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// Names of the indexes. Each costs memory and time for every object, so caches have only those that were asked for.
const (
	byController = "controller" // by the uid of the controlling owner
	byOrphanage  = "orphanage"  // objects without one, by namespace
)

// OwnedStore is a cache of objects that controllers own.
type OwnedStore[T metav1.Object] struct{ Store[T] }

// OwnedBy returns the objects of a namespace whose controlling owner has the uid. An owner is in the namespace of what it
// owns: whoever writes its uid into objects of another namespace gains nothing by it (RS-11).
func (s OwnedStore[T]) OwnedBy(namespace string, uid types.UID) []T {
	elsewhere := func(o T) bool { return o.GetNamespace() != namespace }
	return slices.DeleteFunc(s.by(byController, string(uid)), elsewhere)
}

// OrphansIn returns the objects of a namespace that no owner controls.
func (s OwnedStore[T]) OrphansIn(namespace string) []T { return s.by(byOrphanage, namespace) }

// Store is a cache of one type. The objects that it returns, in no order, belong to the cache and must not be written to.
type Store[T metav1.Object] struct{ informer cache.SharedIndexInformer }

// Objects returns the cache of a kind of client-go's scheme, such as Objects[*batchv1.Job]. Only kinds that are asked for are
// watched (CI-9), and each only once, however many controllers ask. It must be called before the factory starts. It fails if
// the kind is unknown.
func Objects[T apiObject](f informers.SharedInformerFactory) (Store[T], error) {
	informer, err := informerOf[T](f)
	if err != nil {
		return Store[T]{}, err
	}
	return newStore[T](informer, nil)
}

// OwnedObjects returns the same cache as [Objects], with indexes by controlling owner.
func OwnedObjects[T apiObject](f informers.SharedInformerFactory) (OwnedStore[T], error) {
	informer, err := informerOf[T](f)
	if err != nil {
		return OwnedStore[T]{}, err
	}
	s, err := newStore[T](informer, owners())
	return OwnedStore[T]{s}, err
}

// IndexedStore is a cache with an index of the caller's choice.
type IndexedStore[T metav1.Object] struct {
	Store[T]
	index string
}

// IndexedObjects returns the same cache as [Objects], with an index: By finds the objects for which values returns a value. Who asks
// for the same cache with the same name of an index gets the index that is there.
func IndexedObjects[T apiObject](f informers.SharedInformerFactory, name string, values func(T) []string) (IndexedStore[T], error) {
	informer, err := informerOf[T](f)
	if err != nil {
		return IndexedStore[T]{}, err
	}
	s, err := newStore[T](informer, cache.Indexers{name: func(o any) ([]string, error) {
		if object, ok := o.(T); ok {
			return values(object), nil
		}
		return nil, nil
	}})
	return IndexedStore[T]{s, name}, err
}

// By returns the objects that the index has under a value.
func (s IndexedStore[T]) By(value string) []T { return s.by(s.index, value) }

// apiObject is a pointer to a type of client-go's scheme.
type apiObject interface {
	metav1.Object
	runtime.Object
}

// informerOf returns the factory's informer of a kind, the one that its own methods return. With a client made by [NewClient]
// it retries.
func informerOf[T apiObject](f informers.SharedInformerFactory) (cache.SharedIndexInformer, error) {
	var none T
	example := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	kinds, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0]) // right for all kinds of the scheme
	own, ok := f.(*factory)
	if !ok || own.client == nil {
		generic, err := f.ForResource(resource)
		if err != nil {
			return nil, fmt.Errorf("cache of %s: %w", resource.Resource, err)
		}
		return generic.Informer(), nil
	}
	lw, err := own.client.listWatch(kinds[0], resource, own.selector)
	if err != nil {
		return nil, fmt.Errorf("cache of %s: %w", resource.Resource, err)
	}
	return f.InformerFor(example, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
			ResyncPeriod: resync, Identifier: own.identity(resource),
			Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		})
	}), nil
}

// newStore adds the indexes that the informer does not have yet. When two controllers ask for the same index, the conflict that
// the second one causes is ignored.
func newStore[T metav1.Object](informer cache.SharedIndexInformer, indexers cache.Indexers) (Store[T], error) {
	for name, index := range indexers {
		err := informer.AddIndexers(cache.Indexers{name: index})
		if err == nil {
			continue
		}
		if _, missing := informer.GetIndexer().ByIndex(name, ""); missing != nil {
			return Store[T]{}, fmt.Errorf("index a cache by %s: %w", name, err)
		}
	}
	_ = SetWatchErrorHandler(informer) // fails if the informer runs already: whoever asked first has seen to it
	return Store[T]{informer}, nil
}

// Informer is what fills the cache.
func (s Store[T]) Informer() cache.SharedIndexInformer { return s.informer }

// Get returns the object of that name, the zero T (nil) if there is none. Of kinds without namespaces the namespace is empty.
func (s Store[T]) Get(namespace, name string) (found T) {
	o, ok, err := s.informer.GetIndexer().GetByKey(cache.NewObjectName(namespace, name).String())
	if err == nil && ok {
		found, _ = o.(T)
	}
	return found
}

// All ranges over all objects, in no order.
func (s Store[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, o := range s.informer.GetIndexer().List() {
			if t, ok := o.(T); ok && !yield(t) {
				return
			}
		}
	}
}

// In returns all objects of a namespace. Its cost grows with the namespace, so it is not for frequent lookups.
func (s Store[T]) In(namespace string) []T { return s.by(cache.NamespaceIndex, namespace) }

func (s Store[T]) by(index, value string) []T {
	return typed[T](byIndex(s.informer.GetIndexer(), index, value))
}

// typed returns those of the objects that are of a type.
func typed[T any](found []any) []T {
	all := make([]T, 0, len(found))
	for _, o := range found {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

func byIndex(indexer cache.Indexer, index, value string) []any {
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		// No constructor above lets this happen. To return nothing would be to say that there are no pods, and a
		// controller would create them all.
		panic(fmt.Sprintf("a cache without its index: %v", err))
	}
	return found
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
