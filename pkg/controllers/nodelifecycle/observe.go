package nodelifecycle

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	nodes  informers.NodeCache
	leases informers.Store[*coordinationv1.Lease]
	pods   informers.NodePodCache
	term   *reconcile.Term[term]
	limits Options
}

// term is what the controller knows beside its nodes: how the zones do. It follows the watch of nodes, and
// Observe puts the zone of a node into the snapshot.
type term struct {
	Zones zones
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// newTerm returns the term. When the rate of a zone changes, the nodes are enqueued that are not well.
func (k *caches) newTerm() *reconcile.Term[term] {
	return reconcile.NewTerm(reconcile.TermOptions[term]{
		Begin: func() term { return term{Zones: firstZones(slices.Collect(k.nodes.All()))} },
		Next: func(t term, before, after plan.Object) term {
			t.Zones = t.Zones.next(before, after)
			return t
		},
		Concerns: func(was, is term) bool { return is.Zones.concerns(was.Zones, k.limits) },
		Keys:     ailing,
	})
}

// ailing are the nodes that the state of their zones concerns.
func ailing(t term) iter.Seq[plan.Key] {
	return func(yield func(plan.Key) bool) {
		for _, zone := range t.Zones {
			for name := range zone.Ailing.All() {
				if !yield(plan.Key{Name: name}) {
					return
				}
			}
		}
	}
}

// observe finds the node, what it has shown of life, how its zone does, and its pods if they may have to be
// marked.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	s := snapshot{Name: r.Key.Name, Node: k.nodes.Get(r.Key.Name), Limits: k.limits,
		Memory: ptr.Deref(r.Memory, memory{})}
	if s.Node == nil {
		o.Exists, o.Snapshot = s.Memory.Announced, s // that it is gone is said once
		return o, nil
	}
	o.Exists = true
	if s.Memory.UID != s.Node.UID {
		s.Memory = memory{UID: s.Node.UID, First: r.Now}
	}
	s.Memory = s.Memory.seeing(s.Node, k.leases.Get(corev1.NamespaceNodeLease, s.Name), r.Now, r.Changes)
	if t, known := k.term.Get(); known {
		s.Zone = t.Zones.of(r.Now, s.Node)
	}
	if _, left := silence(r.Now, s); !nodes.Ready(s.Node) || left <= 0 {
		s.Pods = k.pods.OnNode(s.Name)
	}
	o.Snapshot, o.Memory = s, &s.Memory
	return o, nil
}

// seeing is the memory with the signs of life that the caches show. They count from when the watches brought them; at
// first sight of the node they are only what there was before.
func (m memory) seeing(n *corev1.Node, lease *coordinationv1.Lease, now time.Time, changes []reconcile.Change) memory {
	first := m.Renewed.IsZero() && m.Reported.IsZero() && m.First.Equal(now)
	see := func(before time.Time, sign func(plan.Object) time.Time, of plan.Object) time.Time {
		is := sign(of)
		if is.IsZero() || is.Equal(before) {
			return before // the clock of the node may be set back: what differs is a sign of life
		}
		when := now // the watch is about to say so
		for _, c := range changes {
			if c.After != nil && sign(c.After).Equal(is) {
				when = c.Time
			}
		}
		if !first && when.After(m.Alive) && !is.Equal(m.Live) { // what a live read has shown is no news
			m.Alive, m.Proved = when, false
		}
		return is
	}
	if lease != nil {
		m.Renewed = see(m.Renewed, renewed, lease)
	}
	m.Reported = see(m.Reported, reported, n)
	// Who writes the condition without a time has given a sign of life, too (NL-14): this controller writes Unknown.
	c := ready(n)
	if c != nil && !m.HadReady && !first && c.Status != corev1.ConditionUnknown && now.After(m.Alive) {
		m.Alive, m.Proved = now, false
	}
	m.HadReady = c != nil && c.Status != corev1.ConditionUnknown
	return m
}

// renewed is when a Lease was renewed, as the node says; zero for other objects.
func renewed(o plan.Object) time.Time {
	if lease, ok := o.(*coordinationv1.Lease); ok && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.Time
	}
	return time.Time{}
}

// reported is when a node has last reported its status, as it says; zero for other objects.
func reported(o plan.Object) time.Time {
	if n, ok := o.(*corev1.Node); ok && ready(n) != nil {
		return ready(n).LastHeartbeatTime.Time
	}
	return time.Time{}
}

// slowRead is how long a read may take that proves something. An API server that takes longer may have kept nodes
// from renewing their Leases, too.
const slowRead = time.Second

// prove takes in what a live read of the Lease of a silent node has shown: the caches may be late. If nobody may read
// it, they have to do: otherwise no dead node would ever be Unknown (V37-116). A read that fails, or takes long,
// concerns all nodes: those whose Leases nobody has read meanwhile could not renew them either.
func prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	lease, ok, err := reconcile.Found[*coordinationv1.Lease](proof, leaseOf(s.Name))
	read := proof.Read[leaseOf(s.Name)]
	switch {
	case apierrors.IsForbidden(err):
		s.Memory.Proved, s.Unread = true,
			"the API server forbids to read Leases live, so what the cache shows has to do"
		return o
	case err != nil:
		s.Unread = "its Lease cannot be read live: " + err.Error()
		return o
	case !ok:
		return o
	case lease != nil && !renewed(lease).IsZero() && !renewed(lease).Equal(s.Memory.Renewed) &&
		!renewed(lease).Equal(s.Memory.Live):
		s.Memory.Live, s.Memory.Alive = renewed(lease), read.Ended
	}
	blind := slices.MaxFunc([]time.Time{proof.Failed, proof.Slow}, time.Time.Compare)
	switch took := read.Ended.Sub(read.Began); {
	case took > slowRead:
		s.Unread = fmt.Sprintf(
			"it has taken %s to read its Lease live, so it may not have been able to renew that either",
			took.Round(time.Millisecond))
	case s.Memory.Alive.Equal(read.Ended):
	case read.Ended.Sub(blind) < s.Limits.MonitorGracePeriod/2:
		s.Unread = "a Lease could not be read live a moment ago, and it may not have renewed its own since either"
	default:
		s.Memory.Proved = true
	}
	return o
}

// enqueuedByNode: a change of a node concerns the nodes whose turn is next in its zone. Each node in the line knows
// when its turn is if nothing changes.
func (k *caches) enqueuedByNode(before, after plan.Object) []plan.Key {
	keys := informers.Itself(before, after)
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	if was == nil || is != nil && memberOf(was) == memberOf(is) && zoneOf(was) == zoneOf(is) {
		return keys
	}
	t, _ := k.term.Get()
	for _, name := range t.Zones[zoneOf(was)].next(2) {
		keys = append(keys, plan.Key{Name: name})
	}
	return keys
}

// enqueuedByPod: pods of nodes that are not ready may have to be marked.
func (k *caches) enqueuedByPod(_, after plan.Object) []plan.Key {
	pod, ok := after.(*corev1.Pod)
	if !ok {
		return nil
	}
	n := k.nodes.Get(pod.Spec.NodeName)
	if n == nil || ready(n) == nil || ready(n).Status != corev1.ConditionUnknown {
		return nil
	}
	return []plan.Key{{Name: n.Name}}
}
