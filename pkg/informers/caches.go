package informers

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Names of the indexes.
const (
	byController = "controller" // by the uid of the controlling owner
	byOrphanage  = "orphanage"  // objects without one, by namespace
)

// PodCache finds pods.
type PodCache struct{ store[*corev1.Pod] }

// ReplicaSetCache finds ReplicaSets.
type ReplicaSetCache struct{ store[*appsv1.ReplicaSet] }

// DeploymentCache finds Deployments.
type DeploymentCache struct{ store[*appsv1.Deployment] }

// Pods returns the cache of pods. Only kinds that are asked for are watched. It must be called before the factory starts.
func Pods(f informers.SharedInformerFactory) (PodCache, error) {
	s, err := newStore[*corev1.Pod](f.Core().V1().Pods().Informer(), owners())
	return PodCache{s}, err
}

// ReplicaSets returns the cache of ReplicaSets, under the same terms.
func ReplicaSets(f informers.SharedInformerFactory) (ReplicaSetCache, error) {
	s, err := newStore[*appsv1.ReplicaSet](f.Apps().V1().ReplicaSets().Informer(), owners())
	return ReplicaSetCache{s}, err
}

// Deployments returns the cache of Deployments, under the same terms.
func Deployments(f informers.SharedInformerFactory) (DeploymentCache, error) {
	s, err := newStore[*appsv1.Deployment](f.Apps().V1().Deployments().Informer(), nil)
	return DeploymentCache{s}, err
}

// store is a cache of one type. What it returns belongs to the cache: look, don't touch.
type store[T metav1.Object] struct{ informer cache.SharedIndexInformer }

// newStore adds the indexes that the informer does not have yet: two controllers may ask for the same ones.
func newStore[T metav1.Object](informer cache.SharedIndexInformer, indexers cache.Indexers) (store[T], error) {
	missing := cache.Indexers{}
	for name, index := range indexers {
		if _, ok := informer.GetIndexer().GetIndexers()[name]; !ok {
			missing[name] = index
		}
	}
	if len(missing) > 0 {
		if err := informer.AddIndexers(missing); err != nil {
			return store[T]{}, fmt.Errorf("index a cache: %w", err)
		}
	}
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

// OwnedBy returns the objects whose controlling owner has the uid.
func (s store[T]) OwnedBy(uid types.UID) []T { return s.by(byController, string(uid)) }

// OrphansIn returns the objects of a namespace that no owner controls.
func (s store[T]) OrphansIn(namespace string) []T { return s.by(byOrphanage, namespace) }

// In returns all objects of a namespace. Its cost grows with the namespace: not for what happens often.
func (s store[T]) In(namespace string) []T { return s.by(cache.NamespaceIndex, namespace) }

func (s store[T]) by(index, value string) []T {
	found, err := s.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // no such index: the type's constructor did not ask for it
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
