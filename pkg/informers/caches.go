package informers

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Names of the indexes. Each costs memory and time for every object, so caches have only those that were asked for.
const (
	byController = "controller" // by the uid of the controlling owner
	byOrphanage  = "orphanage"  // objects without one, by namespace
	byNode       = "node"       // pods, by the node they are assigned to
)

// PodCache finds pods by their controllers.
type PodCache struct{ owned[*corev1.Pod] }

// NodePodCache finds pods by their nodes.
type NodePodCache struct{ store[*corev1.Pod] }

// ReplicaSetCache finds ReplicaSets by their controllers.
type ReplicaSetCache struct{ owned[*appsv1.ReplicaSet] }

// DeploymentCache finds Deployments.
type DeploymentCache struct{ store[*appsv1.Deployment] }

// Pods returns the cache of pods, with an index by controller. Only kinds that are asked for are watched (CI-9), and each
// only once, however many controllers ask. It must be called before the factory starts.
func Pods(f informers.SharedInformerFactory) (PodCache, error) {
	s, err := newStore[*corev1.Pod](podInformer(f), owners())
	return PodCache{owned[*corev1.Pod]{s}}, err
}

// PodsByNode returns the same cache of pods, with an index by node, under the same terms.
func PodsByNode(f informers.SharedInformerFactory) (NodePodCache, error) {
	s, err := newStore[*corev1.Pod](podInformer(f), cache.Indexers{byNode: nodeOf})
	return NodePodCache{s}, err
}

// ReplicaSets returns the cache of ReplicaSets, with an index by controller, under the same terms.
func ReplicaSets(f informers.SharedInformerFactory) (ReplicaSetCache, error) {
	informer := informerOf(f, &appsv1.ReplicaSet{}, appsv1.SchemeGroupVersion.WithResource("replicasets"), func(k kubernetes.Interface) kindClient[*appsv1.ReplicaSetList] {
		return k.AppsV1().ReplicaSets(metav1.NamespaceAll)
	})
	s, err := newStore[*appsv1.ReplicaSet](informer, owners())
	return ReplicaSetCache{owned[*appsv1.ReplicaSet]{s}}, err
}

// Deployments returns the cache of Deployments, under the same terms.
func Deployments(f informers.SharedInformerFactory) (DeploymentCache, error) {
	informer := informerOf(f, &appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithResource("deployments"), func(k kubernetes.Interface) kindClient[*appsv1.DeploymentList] {
		return k.AppsV1().Deployments(metav1.NamespaceAll)
	})
	s, err := newStore[*appsv1.Deployment](informer, nil)
	return DeploymentCache{s}, err
}

// OnNode returns the pods that are assigned to the node.
func (c NodePodCache) OnNode(node string) []*corev1.Pod { return c.by(byNode, node) }

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

// store is a cache of one type. What it returns belongs to the cache, in no order: look, don't touch.
type store[T metav1.Object] struct{ informer cache.SharedIndexInformer }

// newStore adds the indexes that the informer does not have yet. Two controllers may ask for the same one; then the first
// has it added, and the second is told of a conflict, which is as well.
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

// In returns all objects of a namespace. Its cost grows with the namespace: not for what happens often.
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

func nodeOf(o any) ([]string, error) {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}, nil
	}
	return nil, nil
}
