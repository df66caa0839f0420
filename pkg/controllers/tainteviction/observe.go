package tainteviction

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	pods       informers.NodePodCache
	nodes      informers.NodeCache
	live       nodeReader
	brake      *brake.Brake
	term       terms
	comparison bool // see snapshot
	respect    bool // see snapshot
	grace      time.Duration
}

func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory], err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists = true
	t, known := k.term.Get()
	if !known {
		t.Began = r.Now
	}
	s := snapshot{
		Pod: pod, Node: k.nodes.Get(pod.Spec.NodeName), Comparison: k.comparison, Respect: k.respect,
		Memory: ptr.Deref(r.Memory, memory{}), Freed: k.brake.Released(), Term: t.Began, Grace: k.grace,
	}
	if m := s.Memory; s.Node != nil && m.UID == pod.UID && !m.Due.IsZero() && !r.Now.Before(m.Due) {
		switch node, err := k.live.get(ctx, r, s.Node.Name); {
		case client.IsAbsent(err):
			s.Node = nil
		case err != nil:
			s.Unread = err.Error()
		default:
			s.Node, s.Read = node, true
		}
		t, _ = k.term.Get() // others may have read meanwhile
		s.Blind = t.Blind
	}
	o.Snapshot = s
	return o, nil
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

func tainted(n *corev1.Node) bool { return len(noExecute(n)) > 0 }

// noExecute are the taints for which pods are evicted (TE-11).
func noExecute(n *corev1.Node) (taints []corev1.Taint) {
	if n == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
}

// sharedFor is how long what was read of a node serves all of its pods.
const sharedFor = time.Second

// nodeReader reads nodes live, once for all pods that are due together. The zero value has read none.
type nodeReader struct {
	mu   sync.Mutex
	read map[string]*reading
}

type reading struct {
	began time.Time
	done  chan struct{} // closed when the rest is there
	node  *corev1.Node
	err   error
}

func (n *nodeReader) get(ctx context.Context, r reconcile.Request[memory], name string) (*corev1.Node, error) {
	one, first := n.reading(r.Now, name)
	if first {
		one.node = &corev1.Node{}
		one.err = r.Reader.Get(ctx, client.MappingFor[*corev1.Node](), plan.Key{Name: name}, one.node)
		close(one.done)
	}
	select {
	case <-one.done:
		return one.node, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reading returns the present reading of a node; first says that the caller has to do it.
func (n *nodeReader) reading(now time.Time, name string) (one *reading, first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one = n.read[name]; one != nil && now.Sub(one.began) < sharedFor {
		return one, false
	}
	for other, r := range n.read {
		if now.Sub(r.began) >= sharedFor {
			delete(n.read, other)
		}
	}
	if n.read == nil {
		n.read = map[string]*reading{}
	}
	one = &reading{began: now, done: make(chan struct{})}
	n.read[name] = one
	return one, true
}
