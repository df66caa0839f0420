package replicas

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Config says of which kind a controller is, and where it finds the sets.
type Config struct {
	Name    string // of the queue (CI-33)
	Example *Set   // of the kind
	Workers int
	Watch   reconcile.Watch                   // of the sets
	Get     func(namespace, name string) *Set // nil if there is none
	// In returns the sets of a namespace, for orphans that one of them may adopt.
	In func(namespace string) []*Set
	// Siblings returns all sets, this one included, with the same controlling owner as a set that has one (RS-32).
	// Nil: which pods are deleted does not depend on those of other sets.
	Siblings func(*Set) []*Set
	Metrics  Metrics

	PodFailureBackoff   bool // pods that fail at start again and again are replaced at a falling rate
	PodDeletionCost     bool // the annotation takes part in choosing which pods to delete (CLI-66)
	TerminatingReplicas bool // the status counts terminating pods (CLI-65)
}

// podFields are what such a controller reads of pods, by which it counts them and ranks those to delete (RS-31). The
// sets are written back whole.
func podFields() informers.PodFields {
	return informers.PodFields{
		Paths: []string{
			"metadata.annotations[" + corev1.PodDeletionCost + "]", "spec.nodeName", "status.phase", "status.reason",
			"status.conditions",
			"spec.initContainers.name", "spec.initContainers.restartPolicy", // restarts of sidecars count
			"status.containerStatuses.name", "status.containerStatuses.restartCount",
			"status.initContainerStatuses.name", "status.initContainerStatuses.restartCount",
		},
		Condition: informers.ReadyCondition,
	}
}

// New returns the controller of one kind. It asks for the cache of pods, and takes the sets from where the
// Config says.
func New(c manager.Context, k Config) (manager.Runner, error) {
	pods, err := informers.Pods(c.Informers, podFields())
	if err != nil {
		return nil, err
	}
	sees := &caches{get: k.Get, siblings: k.Siblings, pods: pods, disabled: features{
		PodFailureBackoff: !k.PodFailureBackoff, PodDeletionCost: !k.PodDeletionCost,
		TerminatingReplicas: !k.TerminatingReplicas,
	}}
	owners := informers.Owners[*Set]{
		Kind: k.Example.Kind.Kind, Get: k.Get, In: k.In,
		Selector: func(set *Set) *metav1.LabelSelector { return set.Spec.Selector },
	}
	return reconcile.New(c.Shared, c.Access.OnStale(k.Metrics.countStale),
		reconcile.Controller[snapshot, owned, failureHistory]{
			Name:      k.Name,
			Workers:   k.Workers,
			Explained: []string{k.Example.Kind.Kind},
			Watches: []reconcile.Watch{
				k.Watch,
				pods.Watch(owners.Enqueues),
			},
			Observe: sees.observe,
			// a failed pod was seen, whatever becomes of the writes
			Remember: reconcile.Always[snapshot, owned, failureHistory],
			Owner:    func(s snapshot) plan.Object { return s.Set.Object },
			Plan:     planSet,
			Report:   reportSet,
			Applied:  k.Metrics.observeDeletions,
			Live:     live,
		}), nil
}
