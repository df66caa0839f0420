package podgc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// liveReads is how many nodes one reconcile reads live at most.
const liveReads = 100

// caches are what the controller reads.
type caches struct {
	pods   informers.EndingPodCache
	nodes  informers.NodeCache
	policy policy
	brake  *brake.Brake
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the pods that a rule may have to do with.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (observation, error) {
	o := observation{Exists: true, Snapshot: snapshot{Rule: r.Key.Name, Policy: k.policy}}
	s := &o.Snapshot
	switch s.Rule {
	case terminated:
		if n := k.pods.FinishedCount(); k.policy.idle(n) {
			s.Kept = n
		} else {
			s.Pods = k.pods.Finished()
		}
	case unscheduled:
		s.Pods = k.pods.Terminating()
	case outOfService:
		s.Pods = k.pods.Terminating()
		s.Nodes = map[string]*corev1.Node{}
		for _, p := range s.Pods {
			if node := k.nodes.Get(p.Spec.NodeName); node != nil {
				s.Nodes[node.Name] = node
			}
		}
	case orphaned:
		m := r.Memory.clone()
		k.observeOrphans(r, s, &m)
		o.Memory = &m
	}
	return o, nil
}

// prove takes in which nodes a live read has found.
func (k *caches) prove(o observation, proof reconcile.Proof) observation {
	if o.Snapshot.Rule == outOfService {
		proveOutOfService(&o.Snapshot, proof)
		return o
	}
	m := o.Memory.clone()
	k.proveOrphans(&o.Snapshot, &m, proof)
	o.Memory = &m
	return o
}

// proveOutOfService puts the nodes as they were read live in the place of what the cache has shown: the taint may have
// been taken off, and the pods run. A node that cannot be read, or that is gone, is none (PGC-26).
func proveOutOfService(s *snapshot, proof reconcile.Proof) {
	s.Nodes = maps.Clone(s.Nodes)
	for ref := range proof.Read {
		if live, ok, _ := reconcile.Found[*corev1.Node](proof, ref); ok && live != nil {
			s.Nodes[ref.Name] = live
		} else {
			delete(s.Nodes, ref.Name)
		}
	}
}

// observeOrphans finds the pods on nodes that may be gone: missing for the grace period, and not held back by the brake
// (PGC-9).
func (k *caches) observeOrphans(r reconcile.Request[memory], s *snapshot, m *memory) {
	for _, c := range r.Changes {
		if c.Before == nil { // it is back, if only for a moment: its grace period begins anew
			m.release(c.After.GetName())
		}
	}
	if r.Missed { // any may have been back
		clear(m.Missing)
	}
	used := k.pods.NodesInUse()
	if m.Began.IsZero() {
		m.begin(r.Now,
			slices.DeleteFunc(slices.Clone(used), func(name string) bool { return !proven(k.pods.OnNode(name)) }))
	}
	s.NodeCounts = m.count(r.Now, k.nodes.Names(), used)
	since, inherited := k.brake.Inherited(r.Now, orphans)
	switch {
	case s.NodeCounts.Missing == 0: // nothing can be held
	case k.brake.Trips(s.NodeCounts.Vanished, s.NodeCounts.Known):
		s.Held = s.NodeCounts.tooMany()
	case inherited && r.Now.Sub(since) < window: // nodes that have come since hide how many there were
		s.Held = held{tooManyVanished,
			fmt.Sprintf("the previous leader has held them since %s", since.UTC().Format(time.RFC3339))}
	case len(s.NodeCounts.Due) > 0:
		s.Batch, s.Idle, s.Unread = k.batchOf(s.NodeCounts.Due)
		if s.Compare = len(s.Batch) > 0 && k.brake.Applies(s.NodeCounts.Known); !s.Compare {
			s.taken(m)
		}
	}
	s.HeldBefore, m.Held = m.Held, s.Held.Kind
}

// proveOrphans holds the orphans unless the cache shows the nodes that there are, and finds those whose nodes are not
// there when read live (PGC-10).
func (k *caches) proveOrphans(s *snapshot, m *memory, proof reconcile.Proof) {
	if s.Compare {
		k.compare(s, proof.Read[allNodes()])
		if m.Held = s.Held.Kind; s.Held.Kind != free {
			return // the names stay due
		}
		s.Compare = false
		s.taken(m)
	}
	s.Gone = map[string]bool{}
	for _, one := range s.Batch {
		read, ok := proof.Read[metadataOf(one.Node)]
		switch {
		case !ok:
			return
		case read.Err != nil: // it is not known to be gone, and its grace period begins anew
			s.Unreadable = append(s.Unreadable, fmt.Sprintf("node %s: %v", one.Node, read.Err))
			m.release(one.Node)
		case len(read.Objects) == 0: // it stays due until no pod is left that could be removed
			s.Gone[one.Node] = true
			s.Pods = append(s.Pods, one.Pods...)
		default:
			m.release(one.Node)
		}
	}
	s.Ask = nil
}

// compare holds the orphans unless the cache shows the nodes that there are.
func (k *caches) compare(s *snapshot, list reconcile.Reading) {
	switch {
	case apierrors.IsForbidden(list.Err): // a role of somebody's own, without it: each node is still read live
		s.Uncompared = true
		return
	case list.Err != nil:
		s.Held = held{notProved, fmt.Sprintf("the nodes cannot be listed: %v", list.Err)}
		return
	}
	live := make([]string, len(list.Objects))
	for i, node := range list.Objects {
		live[i] = node.GetName()
	}
	s.Held = checkNames(live, k.nodes.Names())
}

// proven reports whether one of the pods was once run: its node was there then.
func proven(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Status.Phase != "" && p.Status.Phase != corev1.PodPending || len(p.Status.PodIPs) > 0
	})
}

// batchOf returns the first of the nodes that are due, and their pods, as much as one reconcile may take on, those of
// which no pod needs anything, and how many nodes are left. It is done before the nodes are read live, so that no pod
// is among them that was bound to a new node of that name.
func (k *caches) batchOf(names []string) (first []nodePods, idle []string, left int) {
	n := 0
	for i, name := range names {
		on := slices.DeleteFunc(k.pods.OnNode(name), leaving)
		if len(first) == liveReads || n > 0 && n+len(on) > batch {
			return first, idle, len(names) - i
		}
		if len(on) == 0 {
			idle = append(idle, name)
			continue
		}
		n += len(on)
		first = append(first, nodePods{name, on})
	}
	return first, idle, 0
}

// taken has the nodes of the batch read live. The grace period of nodes whose pods need nothing ends unread.
func (s *snapshot) taken(m *memory) {
	for _, name := range s.Idle {
		m.release(name)
	}
	for _, one := range s.Batch {
		s.Ask = append(s.Ask, one.Node)
	}
}
