package tainteviction

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	pods       informers.NodePodCache
	nodes      informers.NodeCache
	brake      *brake.Brake
	began      *reconcile.Term[time.Time] // when this process began to lead
	comparison bool                       // see snapshot
	respect    bool                       // see snapshot
	grace      time.Duration
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the pod, its node, and since when this process leads. Nothing is read live.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists = true
	began, known := k.began.Get()
	if !known {
		began = r.Now
	}
	o.Snapshot = snapshot{
		Pod: pod, Node: k.nodes.Get(pod.Spec.NodeName), Comparison: k.comparison, Respect: k.respect,
		Memory: ptr.Deref(r.Memory, memory{}), Freed: k.brake.Released(), Term: began, Grace: k.grace,
	}
	return o, nil
}

// prove puts the node as it was read live in the place of what the cache has shown.
func prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	switch live, ok, err := reconcile.Found[*corev1.Node](proof, nodeOf(s.Pod)); {
	case err != nil:
		s.Unread = err.Error()
	case ok:
		s.Node, s.Read, s.Blind = live, true, proof.Failed
	}
	return o
}

// enqueuedByPod: of pods on other nodes, nothing is due, and nothing is remembered.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	pod, ok := after.(*corev1.Pod)
	if !ok {
		pod, ok = before.(*corev1.Pod)
	}
	if !ok || !tainted(k.nodes.Get(pod.Spec.NodeName)) {
		return nil
	}
	return []plan.Key{plan.KeyOf(pod)}
}

// enqueuedByNode: its pods are looked at when its taints have changed (TE-6).
func (k *caches) enqueuedByNode(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	if equality.Semantic.DeepEqual(noExecute(was), noExecute(is)) {
		return nil
	}
	for _, p := range k.pods.OnNode(cmp.Or(is, was).Name) {
		keys = append(keys, plan.KeyOf(p))
	}
	return keys
}

// tainted reports whether pods may be evicted from a node.
func tainted(n *corev1.Node) bool { return len(noExecute(n)) > 0 }

// noExecute are the taints for which pods are evicted (TE-11).
func noExecute(n *corev1.Node) (taints []corev1.Taint) {
	if n == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints),
		func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
}
