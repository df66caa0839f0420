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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	nodes  informers.NodeCache
	leases informers.Store[*coordinationv1.Lease]
	pods   informers.NodePodCache
	root   client.Reader // with the identity that watches
	term   *reconcile.Term[term]
	limits Options
	clock  reconcile.Clock
}

// term is what the controller knows beside its nodes.
type term struct {
	Zones zones
	// Blind is when the API server has last not answered a read of a Lease in time. It concerns all nodes: those whose
	// Leases nobody has read meanwhile could not renew them either.
	Blind time.Time
}

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

// planned has the other nodes know that a Lease could not be read in time.
func (k *caches) planned(s snapshot, _ decision) error {
	if !s.Blind.IsZero() {
		k.term.Update(func(t term) term {
			t.Blind = s.Blind
			return t
		})
	}
	return nil
}

// blind is when a Lease last could not be read, also by who has read another one meanwhile.
func (k *caches) blind() time.Time {
	t, _ := k.term.Get()
	return t.Blind
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

func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory], err error) {
	s := snapshot{Name: r.Key.Name, Node: k.nodes.Get(r.Key.Name), Limits: k.limits, Memory: ptr.Deref(r.Memory, memory{})}
	if s.Node == nil {
		o.Snapshot = s
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
	if _, left := silence(r.Now, s); left <= 0 && !s.Memory.Proved {
		k.readLease(ctx, r, &s)
	}
	if !nodes.Ready(s.Node) || s.Memory.Proved {
		s.Pods = k.pods.OnNode(s.Name)
	}
	o.Snapshot, o.Memory = s, &s.Memory
	return o, nil
}

// seeing is the memory with the signs of life that the caches show. They count from when the watches brought them; at first sight of the node
// they are only what there was before.
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

// slowRead is how long a read may take that proves something. An API server that takes longer may have kept nodes from renewing their Leases,
// too.
const slowRead = time.Second

// readLease reads the Lease of a node that seems to be silent, as the caches may be late. If nobody may read it, they have to do: otherwise no
// dead node would ever be Unknown (V37-116).
func (k *caches) readLease(ctx context.Context, r reconcile.Request[memory], s *snapshot) {
	began := k.clock.Now()
	lease, err := k.liveLease(ctx, r.Reader, s.Name)
	ended := k.clock.Now()
	switch {
	case apierrors.IsForbidden(err):
		s.Memory.Proved, s.Unread = true, "the API server forbids to read Leases live, so what the cache shows has to do"
		return
	case err != nil:
		s.Unread = "its Lease cannot be read live: " + err.Error()
		s.Blind = ended
		return
	case lease != nil && !renewed(lease).IsZero() && !renewed(lease).Equal(s.Memory.Renewed) && !renewed(lease).Equal(s.Memory.Live):
		s.Memory.Live, s.Memory.Alive = renewed(lease), ended
	}
	switch took := ended.Sub(began); {
	case took > slowRead:
		s.Unread = fmt.Sprintf("it has taken %s to read its Lease live, so it may not have been able to renew that either", took.Round(time.Millisecond))
		s.Blind = ended
	case s.Memory.Alive.Equal(ended):
	case ended.Sub(k.blind()) < k.limits.MonitorGracePeriod/2:
		s.Unread = "a Lease could not be read live a moment ago, and it may not have renewed its own since either"
	default:
		s.Memory.Proved = true
	}
}

// liveLease reads the Lease of a node; nil if there is none. API servers before 1.37 do not let the controller's own account read it; the identity
// that watches Leases may list them.
func (k *caches) liveLease(ctx context.Context, reader client.Reader, name string) (*coordinationv1.Lease, error) {
	lease, mapping := &coordinationv1.Lease{}, client.MappingFor[*coordinationv1.Lease]()
	err := reader.Get(ctx, mapping, plan.Key{Namespace: corev1.NamespaceNodeLease, Name: name}, lease)
	switch {
	case client.IsAbsent(err):
		return nil, nil
	case !apierrors.IsForbidden(err) || k.root == nil:
		return lease, err
	}
	var list coordinationv1.LeaseList
	one := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	if err := k.root.List(ctx, mapping, corev1.NamespaceNodeLease, one, &list); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// enqueuedByNode: a change of a node concerns the nodes whose turn is next in its zone. Each node in the line knows when its turn is if nothing
// changes.
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
