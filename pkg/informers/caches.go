package informers

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

// Names of the indexes. Each costs memory and time for every object, so caches have only those that were asked for.
const (
	byController = "controller" // by the uid of the controlling owner
	byOrphanage  = "orphanage"  // objects without one, by namespace
	bySelector   = "selector"   // by what their selectors match
)

// OwnedStore is a cache of objects that controllers own.
type OwnedStore[T metav1.Object] struct{ Store[T] }

// OwnedBy returns the objects of a namespace whose controlling owner has the uid. An owner is in the namespace of
// what it owns: whoever writes its uid into objects of another namespace gains nothing by it (RS-11).
func (s OwnedStore[T]) OwnedBy(namespace string, uid types.UID) []T {
	elsewhere := func(o T) bool { return o.GetNamespace() != namespace }
	return slices.DeleteFunc(s.by(byController, namespace, string(uid)), elsewhere)
}

// OrphansIn returns the objects of a namespace that no owner controls.
func (s OwnedStore[T]) OrphansIn(namespace string) []T {
	return s.by(byOrphanage, namespace, namespace)
}

// Store is a cache of one type. The objects that it returns, in no order, belong to the cache and must not be written
// to.
type Store[T metav1.Object] struct{ cached }

// cached is what is known of a cache, whatever the type of its objects.
type cached struct {
	kind     schema.GroupVersionKind
	informer cache.SharedIndexInformer
	safe     panics.Informer // the same, whether or not its API is missing
	gate     *apis.Gate      // nil if the API is not one that may be missing
	optional bool            // who asked for the cache works without the API
}

// MetadataOnly is the path of a controller that reads of a kind nothing but what is always kept, see [Objects].
const MetadataOnly = projection.MetadataOnly

// Objects returns the cache of a kind of client-go's scheme, such as Objects[*batchv1.Job], or of a scheme that was
// added with [Factory.AddScheme]. Only kinds that are asked for are watched (CI-9), and each only once, however many
// controllers ask. It must be called before the factory starts. It fails if the kind is unknown.
//
// The paths are those of the fields that the caller reads, as "spec.replicas" or
// "metadata.annotations[example.com/cost]". The metadata, but for annotations and managedFields, is always kept, and
// [MetadataOnly] asks for nothing else. Without a path, all fields but managedFields are kept, as whoever writes back
// whole objects needs it.
func Objects[T apiObject](f *Factory, paths ...string) (Store[T], error) {
	return objects[T](f, nil, paths)
}

// objects returns the store of a kind, with indexes of its own, or those of others that have the same name.
func objects[T apiObject](f *Factory, indexers cache.Indexers, paths []string) (Store[T], error) {
	made, err := informerOf[T](f, paths)
	if err != nil {
		return Store[T]{}, err
	}
	return newStore[T](made, indexers)
}

// OwnedObjects returns the same cache as [Objects], with indexes by controlling owner.
func OwnedObjects[T apiObject](f *Factory, paths ...string) (OwnedStore[T], error) {
	s, err := objects[T](f, owners(), paths)
	return OwnedStore[T]{s}, err
}

// IndexedStore is a cache with an index of the caller's choice.
type IndexedStore[T metav1.Object] struct {
	Store[T]
	index string
}

// IndexedObjects returns the same cache as [Objects], with an index: By finds the objects for which values returns a
// value. Who asks for the same cache with the same name of an index gets the index that is there.
func IndexedObjects[T apiObject](f *Factory, name string, values func(T) []string, paths ...string) (IndexedStore[T],
	error) {
	s, err := objects[T](f, indexOf(name, values), paths)
	return IndexedStore[T]{s, name}, err
}

// indexOf makes an index from a function of objects of one type.
func indexOf[T any](name string, values func(T) []string) cache.Indexers {
	return cache.Indexers{name: func(o any) ([]string, error) {
		if object, ok := o.(T); ok {
			return values(object), nil
		}
		return nil, nil
	}}
}

// By returns the objects that the index has under a value.
func (s IndexedStore[T]) By(value string) []T { return s.by(s.index, "", value) }

// apiObject is a pointer to a type of a scheme.
type apiObject interface {
	metav1.Object
	runtime.Object
}

// informerOf returns the factory's informer of a kind, the one that its own methods return. With a client made by
// [listwatch.NewClient] it retries.
func informerOf[T apiObject](f *Factory, paths []string) (cached, error) {
	var none T
	example := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	if _, ok := any(example).(*corev1.Pod); ok {
		return podInformer(f, PodFields{Paths: paths})
	}
	kind, resource, err := f.kindOf(example)
	if err != nil {
		return cached{}, err
	}
	if err := f.ask(kind, resource,
		projection.Fields{Kinds: map[schema.GroupVersionKind][]string{kind: paths}}); err != nil {
		return cached{}, err
	}
	return f.informer(kind, resource, example), nil
}

// informer returns the cache of a kind, and makes its informer if there is none.
func (f *Factory) informer(
	kind schema.GroupVersionKind, resource schema.GroupVersionResource, example runtime.Object,
) cached {
	client := f.all.client
	if client == nil {
		if generic, err := f.ForResource(resource); err == nil {
			_ = generic.Informer() // makes the informer, and returns another wrapper of it each time
			return f.note(kind, resource, f.InformerFor(example, nil))
		}
	}
	informer := f.of(resource).InformerFor(example,
		func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			lw := listwatch.Deferred(func() (*cache.ListWatch, error) {
				switch {
				case client == nil:
					return nil,
						fmt.Errorf("cache of %s: only a client of listwatch.NewClient can fill it", resource.Resource)
				case !scheme.Scheme.Recognizes(kind):
					return f.all.custom.ListWatch(client, kind, resource,
						cacheName(resource.GroupResource().String(), f.selector), f.selector)
				}
				return client.ListWatch(kind, resource, f.selector,
					cacheName(resource.GroupResource().String(), f.selector))
			})
			return cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
				ResyncPeriod: resync, Identifier: f.identity(resource),
				Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			})
		})
	return f.note(kind, resource, informer)
}

// newStore adds the indexes that the informer does not have yet. When two controllers ask for the same index, the
// conflict that the second one causes is ignored.
func newStore[T metav1.Object](of cached, indexers cache.Indexers) (Store[T], error) {
	informer := of.informer
	for name, index := range indexers {
		err := informer.AddIndexers(cache.Indexers{name: index})
		if err == nil {
			continue
		}
		if _, missing := informer.GetIndexer().ByIndex(name, ""); missing != nil {
			return Store[T]{}, fmt.Errorf("index a cache by %s: %w", name, err)
		}
	}
	// fails if the informer runs already: whoever asked first has seen to it
	_ = listwatch.SetWatchErrorHandler(informer)
	return Store[T]{of}, nil
}

// Kind is the kind of the objects.
func (s Store[T]) Kind() schema.GroupVersionKind { return s.kind }

// Reached reports whether the cache shows the state of a resourceVersion, or a later one. The version may be that of
// another resource, as the API server counts the changes of all resources that it stores together. What is read of
// the cache after that is at least as new.
func (s Store[T]) Reached(version string) bool {
	order, err := resourceversion.CompareResourceVersion(s.informer.GetIndexer().LastStoreSyncResourceVersion(),
		version)
	return err == nil && order >= 0
}

// Informer is what fills the cache.
func (s Store[T]) Informer() cache.SharedIndexInformer { return s.informer }

// Get returns the object of that name, the zero T (nil) if there is none. Of kinds without namespaces the namespace
// is empty.
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
func (s Store[T]) In(namespace string) []T { return s.by(cache.NamespaceIndex, namespace, namespace) }

// CountIn returns how many objects a namespace has. Unlike [Store.In], it expands none of them.
func (s Store[T]) CountIn(namespace string) int {
	s.mustBeSound(cache.NamespaceIndex, namespace)
	return len(mustFind(s.informer.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace)))
}

// by returns what an index has under a value. What is looked up is of a namespace, or, if that is empty, of any.
func (s Store[T]) by(index, namespace, value string) []T {
	s.mustBeSound(index, namespace)
	return typed[T](mustFind(s.informer.GetIndexer().ByIndex(index, value)))
}

// mustBeSound panics if the index lacks an object of the namespace, see [panics.Informer]: it ends at who looks, as
// with [mustFind].
func (s Store[T]) mustBeSound(index, namespace string) {
	mustFind(0, s.safe.Sound(index, namespace))
}

// selectingObjects returns the same cache as [Objects], with an index by selector, see [selectors.IndexFunc].
func selectingObjects[T apiObject](f *Factory, alternatives func(T) []map[string]string, paths []string) (Store[T],
	error) {
	return objects[T](f,
		cache.Indexers{bySelector: selectors.IndexFunc(alternatives),
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, paths)
}

// selecting returns the objects that the index by selector has for labels.
func (s Store[T]) selecting(namespace string, labels map[string]string) []T {
	s.mustBeSound(bySelector, namespace)
	return typed[T](mustFind(selectors.Selecting(s.informer.GetIndexer(), bySelector, namespace, labels)))
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

// mustFind returns what a lookup in an index has found.
func mustFind[T any](found T, err error) T {
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

// controllerOf returns the reference to the controlling owner, nil if there is none.
func controllerOf(o any) *metav1.OwnerReference {
	object, ok := o.(metav1.Object)
	if !ok {
		return nil
	}
	return metav1.GetControllerOfNoCopy(object)
}
