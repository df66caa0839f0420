package replicaset

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/replicas"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// New returns the replicaset controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers, o.backoff = cmp.Or(o.Workers, 5), !o.ReplaceFailedPodsAtOnce
	return manager.Controller{
		Name:    "replicaset-controller",
		Alias:   "replicaset",
		Account: "replicaset-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init gives the shared controller the cache of ReplicaSets, by views of them (replicas.Set). Siblings are
// the ReplicaSets of the same owner: their pods help to choose victims.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	sets, err := informers.OwnedObjects[*appsv1.ReplicaSet](c.Informers)
	if err != nil {
		return nil, err
	}
	own := replicas.NewMetrics()
	own.Register(c.RegisterMetrics)
	return replicas.New(c, replicas.Config{
		Name:    "replicaset",
		Example: replicas.OfReplicaSet(&appsv1.ReplicaSet{}),
		Workers: int(o.Workers),
		Watch:   sets.Watch(informers.Itself, informers.WithResync),
		Get: func(namespace, name string) *replicas.Set {
			return replicas.OfReplicaSet(sets.Get(namespace, name))
		},
		In: func(namespace string) []*replicas.Set { return views(sets.In(namespace)) },
		Siblings: func(set *replicas.Set) []*replicas.Set {
			return views(sets.OwnedBy(set.Namespace, metav1.GetControllerOfNoCopy(set).UID))
		},
		Metrics: own,

		PodFailureBackoff:   o.backoff,
		PodDeletionCost:     c.Enabled("PodDeletionCost"),
		TerminatingReplicas: c.Enabled("DeploymentReplicaSetTerminatingReplicas"),
	})
}

// views returns the views of ReplicaSets by which package replicas sees them.
func views(sets []*appsv1.ReplicaSet) []*replicas.Set {
	all := make([]*replicas.Set, len(sets))
	for i, set := range sets {
		all[i] = replicas.OfReplicaSet(set)
	}
	return all
}
