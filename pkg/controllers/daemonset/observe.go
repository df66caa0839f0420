package daemonset

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// caches are what the controller reads.
type caches struct {
	sets        informers.Store[*appsv1.DaemonSet]
	revisions   informers.OwnedStore[*appsv1.ControllerRevision]
	pods        informers.PodCache
	onNodes     informers.NodePodCache // the same pods
	nodes       informers.NodeCache
	eligibility *eligibilityCache
	verifier    client.Reader // reads nodes live, as whoever fills the caches; nil if they are trusted
}

// observe finds the DaemonSet, its pods and revisions, the orphans that it may adopt, and the nodes that it has to do
// with. Nodes are read after the pods. The cache of nodes may still lack one that the previous leader has made a pod
// for, so only then nodes are read live.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (observation, error) {
	d := k.sets.Get(r.Key.Namespace, r.Key.Name)
	if d == nil {
		k.eligibility.forget(r.Key)
		return observation{}, nil
	}
	pods := append(k.pods.OwnedBy(d.Namespace, d.UID), k.pods.OrphansIn(d.Namespace)...)
	revisions := append(k.revisions.OwnedBy(d.Namespace, d.UID), k.revisions.OrphansIn(d.Namespace)...)
	s := snapshot{Set: d, Pods: pods, Revisions: revisions, Failed: r.Failure != nil, Memory: r.Memory}
	if _, err := plan.Selector(d.Spec.Selector); err != nil {
		return observation{Exists: true, Snapshot: s}, nil
	}
	on := byNode(slices.DeleteFunc(slices.Clone(pods),
		func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, d) }))
	s.Nodes = k.nodesFor(d, on)
	var err error
	if s.Uncached, err = k.uncachedNodes(ctx, s, on); err != nil {
		return observation{Exists: true}, err
	}
	name, _ := newRevisionName(d)
	s.Taken = k.revisions.Get(d.Namespace, name)
	return observation{Exists: true, Snapshot: s}, nil
}

// live names the pods and revisions that a previous leader may have created or deleted.
func live(s snapshot) []reconcile.Live {
	selector, err := plan.Selector(s.Set.Spec.Selector)
	if err != nil {
		return nil
	}
	namespace := s.Set.Namespace
	return []reconcile.Live{reconcile.LiveOf(namespace, selector, s.Pods),
		reconcile.LiveOf(namespace, selector, s.Revisions)}
}
