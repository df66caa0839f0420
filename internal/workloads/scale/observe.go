package scale

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Caches are those of the workloads.
type Caches struct {
	Deployments            informers.Store[*appsv1.Deployment]
	ReplicaSets            informers.Store[*appsv1.ReplicaSet]
	StatefulSets           informers.Store[*appsv1.StatefulSet]
	ReplicationControllers informers.Store[*corev1.ReplicationController]
}

// NewCaches returns the caches, with the fields that the caller reads of all kinds, see [informers.Objects].
func NewCaches(f *informers.Factory, fields ...string) (Caches, error) {
	deployments, err1 := informers.Objects[*appsv1.Deployment](f, fields...)
	replicaSets, err2 := informers.Objects[*appsv1.ReplicaSet](f, fields...)
	statefulSets, err3 := informers.Objects[*appsv1.StatefulSet](f, fields...)
	controllers, err4 := informers.Objects[*corev1.ReplicationController](f, fields...)
	return Caches{deployments, replicaSets, statefulSets, controllers}, errors.Join(err1, err2, err3, err4)
}

// Watches are the watches of all kinds.
func (c Caches) Watches(enqueues func(before, after plan.Object) []plan.Key) []reconcile.Watch {
	return []reconcile.Watch{
		c.Deployments.Watch(enqueues), c.ReplicaSets.Watch(enqueues), c.StatefulSets.Watch(enqueues),
		c.ReplicationControllers.Watch(enqueues),
	}
}

// Kind returns a kind of workloads with its version. It is not ok if the kind is another one.
func (c Caches) Kind(of schema.GroupKind) (kind schema.GroupVersionKind, ok bool) {
	for _, kind := range []schema.GroupVersionKind{
		c.Deployments.Kind(), c.ReplicaSets.Kind(), c.StatefulSets.Kind(), c.ReplicationControllers.Kind(),
	} {
		if kind.GroupKind() == of {
			return kind, true
		}
	}
	return kind, false
}

// Get returns a workload. It is not ok if the workload is not in the caches, or if the kind is another one.
func (c Caches) Get(kind schema.GroupKind, namespace, name string) (Workload, bool) {
	switch kind {
	case c.Deployments.Kind().GroupKind():
		return get(c.Deployments, namespace, name)
	case c.ReplicaSets.Kind().GroupKind():
		return get(c.ReplicaSets, namespace, name)
	case c.StatefulSets.Kind().GroupKind():
		return get(c.StatefulSets, namespace, name)
	case c.ReplicationControllers.Kind().GroupKind():
		return get(c.ReplicationControllers, namespace, name)
	}
	return Workload{}, false
}

// get finds a workload of one kind.
func get[T interface {
	comparable
	plan.Object
}](s informers.Store[T], namespace, name string) (Workload, bool) {
	var none T
	if o := s.Get(namespace, name); o != none {
		return Of(o)
	}
	return Workload{}, false
}
