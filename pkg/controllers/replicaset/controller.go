package replicaset

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// Init builds the replicaset controller.
func Init(c manager.Context) (manager.Runner, error) {
	sets, err1 := informers.ReplicaSets(c.Informers)
	pods, err2 := informers.Pods(c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	off := features{
		podFailureBackOff:   !c.Config.ReplicaSet.PodFailureBackOff,
		podDeletionCost:     !c.Config.ReplicaSet.PodDeletionCost,
		terminatingReplicas: !c.Config.TerminatingReplicas,
	}
	k := &caches{sets: sets, pods: pods, off: off}
	owners := informers.Owners[*appsv1.ReplicaSet]{
		Kind: "ReplicaSet", Get: sets.Get, In: sets.In,
		Selector: func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector },
	}
	return engine.New(c.Shared, c.Access, engine.Controller[snapshot]{
		Name:    "replicaset", // of the queue (CI-33)
		Workers: c.Config.ReplicaSet.Workers,
		Kinds:   []string{"ReplicaSet"},
		Watches: []engine.Watch{
			{Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Informer: k.sets.Informer(), Wakes: informers.Itself, Resync: true},
			{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Informer: k.pods.Informer(), Wakes: owners.WokenBy},
		},
		Observe: k.observe,
		Owner:   func(s snapshot) plan.Object { return s.set },
		Plan:    planPods,
		Report:  reportStatus,
		Measure: measure(c.Config.ReplicaSet.DeletionAgeRatio),
		Live:    live,
	}), nil
}

// measure hands the ages of deleted pods to a metric (RS-35); nil if there is none.
func measure(ratio func(float64)) func(snapshot, plan.Outcome) {
	if ratio == nil {
		return nil
	}
	return func(s snapshot, did plan.Outcome) {
		for _, r := range deletionAgeRatios(time.Now(), s, did) {
			ratio(r)
		}
	}
}

// caches are what the controller looks at.
type caches struct {
	sets informers.ReplicaSetCache
	pods informers.PodCache
	off  features

	witnesses engine.Memory[*witness] // of sets that have failed pods
}

// observe finds the ReplicaSet, its pods and the orphans it may adopt. Nothing is read live (RS-63).
func (k *caches) observe(_ context.Context, key plan.Key) (snapshot, bool, error) {
	set := k.sets.Get(key.Namespace, key.Name)
	if set == nil {
		k.witnesses.Forget(key)
		return snapshot{}, false, nil
	}
	pods := append(k.pods.OwnedBy(set.Namespace, set.UID), k.pods.OrphansIn(set.Namespace)...)
	s := snapshot{set: set, pods: pods, related: func() map[string]int { return k.related(set) }, claims: &claims{}, off: k.off}
	w := k.witnesses.Renew(key, func(w *witness) (*witness, bool) {
		w = w.see(time.Now(), s)
		return w, w != nil
	})
	if w != nil {
		s.failures = w.failures
	}
	return s, true, nil
}

// related counts by node the active pods of all sets that have the same controlling owner (RS-32).
func (k *caches) related(set *appsv1.ReplicaSet) map[string]int {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil {
		return nil
	}
	byNode := map[string]int{}
	for _, sibling := range k.sets.OwnedBy(set.Namespace, owner.UID) {
		for _, pod := range k.pods.OwnedBy(sibling.Namespace, sibling.UID) {
			if podutil.Active(pod) {
				byNode[pod.Spec.NodeName]++
			}
		}
	}
	return byNode
}

// live names the pods that a former leader may have created or deleted.
func live(s snapshot) []engine.Live {
	selector, err := selectorOf(s.set)
	if err != nil {
		return nil
	}
	cached := make([]plan.Object, len(s.pods))
	for i, p := range s.pods {
		cached[i] = p
	}
	return []engine.Live{{Example: &corev1.Pod{}, Namespace: s.set.Namespace, Selector: selector, Cached: cached}}
}
