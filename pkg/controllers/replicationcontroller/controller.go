package replicationcontroller

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/replicas"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// New returns the replicationcontroller controller (RC-1). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "replicationcontroller-controller",
		Alias:   "replicationcontroller",
		Account: "replication-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init gives the shared controller the cache of ReplicationControllers, by views of them (replicas.Set). The
// pods of other ReplicationControllers with the same owner do not count (RC-16), nor does the status know
// pods that are terminating (RC-14).
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	all, err := informers.Objects[*corev1.ReplicationController](c.Informers)
	if err != nil {
		return nil, err
	}
	return replicas.New(c, replicas.Config{
		Name:    "replicationmanager",
		Example: replicas.OfReplicationController(&corev1.ReplicationController{}),
		Workers: int(o.Workers),
		Watch:   all.Watch(informers.Itself, informers.WithResync),
		Get: func(namespace, name string) *replicas.Set {
			return replicas.OfReplicationController(all.Get(namespace, name))
		},
		In: func(namespace string) (sets []*replicas.Set) {
			for _, one := range all.In(namespace) {
				sets = append(sets, replicas.OfReplicationController(one))
			}
			return sets
		},
		PodFailureBackoff: true,
		PodDeletionCost:   c.Enabled("PodDeletionCost"),
	})
}
