package podgc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// liveReads is how many nodes one reconcile reads live at most, and liveAtOnce how many at the same time.
const liveReads, liveAtOnce = 100, 8

// caches are what the controller reads.
type caches struct {
	pods   informers.EndingPodCache
	nodes  informers.NodeCache
	policy policy
	brake  *brake.Brake
}

type observation = reconcile.Observation[snapshot, memory]

// observe finds the pods that a rule may have to do with.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (observation, error) {
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
		k.observeOutOfService(ctx, r.Reader, s)
	case orphaned:
		m := r.Memory.clone()
		k.observeOrphans(ctx, r, s, &m)
		o.Memory = &m
	}
	return o, nil
}

// observeOutOfService finds the nodes of the pods. One that is out of service by the cache is read live, because force asks for proof: the taint may
// have been taken off, and the pods run. A node that cannot be read, or that is gone, is none (PGC-26).
func (k *caches) observeOutOfService(ctx context.Context, reader client.Reader, s *snapshot) {
	s.Nodes = map[string]*corev1.Node{}
	looked := map[string]bool{}
	for _, p := range s.Pods {
		node := k.nodes.Get(p.Spec.NodeName)
		if node == nil || looked[node.Name] {
			continue
		}
		looked[node.Name] = true
		if isOutOfService(node) {
			live := &corev1.Node{}
			if err := reader.Get(ctx, client.MappingFor[*corev1.Node](), plan.Key{Name: node.Name}, live); err != nil {
				continue
			}
			node = live
		}
		s.Nodes[node.Name] = node
	}
}

// observeOrphans finds the pods on nodes that are gone: missing for the grace period, not held back by the brake,
// and not there when read live (PGC-9, PGC-10).
func (k *caches) observeOrphans(ctx context.Context, r reconcile.Request[memory], s *snapshot, m *memory) {
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
		m.begin(r.Now, slices.DeleteFunc(slices.Clone(used), func(name string) bool { return !proven(k.pods.OnNode(name)) }))
	}
	s.NodeCounts = m.count(r.Now, k.nodes.Names(), used)
	since, inherited := k.brake.Inherited(r.Now, orphans)
	switch {
	case s.NodeCounts.Missing == 0: // nothing can be held
	case k.brake.Trips(s.NodeCounts.Vanished, s.NodeCounts.Known):
		s.Held = s.NodeCounts.tooMany()
	case inherited && r.Now.Sub(since) < window: // nodes that have come since hide how many there were
		s.Held = held{tooManyVanished, fmt.Sprintf("the previous leader has held them since %s", since.UTC().Format(time.RFC3339))}
	case len(s.NodeCounts.Due) > 0:
		s.Held = k.prove(ctx, r.Reader, s)
	}
	s.HeldBefore, m.Held = m.Held, s.Held.Kind
	if s.Held.Kind != free {
		return // the names stay due
	}
	var due []string
	var pods [][]*corev1.Pod
	due, pods, s.Unread = k.batchOf(s.NodeCounts.Due, m)
	s.Gone = map[string]bool{}
	found := readLive(ctx, r.Reader, due)
	s.Unreadable = found.errors()
	for i, gone := range found.gone {
		if gone { // it stays due until no pod is left that could be removed
			s.Gone[due[i]] = true
			s.Pods = append(s.Pods, pods[i]...)
		} else {
			m.release(due[i])
		}
	}
}

// proven reports whether one of the pods was once run: its node was there then.
func proven(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.Status.Phase != "" && p.Status.Phase != corev1.PodPending || len(p.Status.PodIPs) > 0
	})
}

// batchOf returns the first of the nodes that are due, and their pods, as much as one reconcile may take on, and how many
// nodes are left. It is done before the nodes are read live, so that no pod is among them that was bound to a new node
// of that name. The grace period of nodes whose pods need nothing ends unread.
func (k *caches) batchOf(names []string, m *memory) (due []string, pods [][]*corev1.Pod, left int) {
	n := 0
	for i, name := range names {
		on := slices.DeleteFunc(k.pods.OnNode(name), leaving)
		if len(due) == liveReads || n > 0 && n+len(on) > batch {
			return due, pods, len(names) - i
		}
		if len(on) == 0 {
			m.release(name)
			continue
		}
		n += len(on)
		due, pods = append(due, name), append(pods, on)
	}
	return due, pods, 0
}

// prove holds the orphans unless the cache shows the nodes that there are. It is asked only when orphans are due, as it lists
// the metadata of all nodes, and not at all when there is no brake.
func (k *caches) prove(ctx context.Context, reader client.Reader, s *snapshot) held {
	if !k.brake.Applies(s.NodeCounts.Known) {
		return held{}
	}
	nodes := client.MappingFor[*corev1.Node]()
	found := &metav1.PartialObjectMetadataList{}
	err := reader.List(ctx, nodes, "", metav1.ListOptions{}, found)
	switch {
	case apierrors.IsForbidden(err): // a role of somebody's own, without it: each node is still read live
		s.Uncompared = true
		return held{}
	case err != nil:
		return held{notProved, fmt.Sprintf("the nodes cannot be listed: %v", err)}
	}
	live := make([]string, len(found.Items))
	for i := range found.Items {
		live[i] = found.Items[i].Name
	}
	return checkNames(live, k.nodes.Names())
}

// liveNodes are nodes that were read live, in the order in which they were asked for.
type liveNodes struct {
	gone []bool  // the server does not know them
	errs []error // of those that could not be read; they are not gone
}

// errors returns the errors that there are, as text.
func (l liveNodes) errors() (all []string) {
	for _, err := range l.errs {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	return all
}

// readLive asks the server for nodes (PGC-10).
func readLive(ctx context.Context, reader client.Reader, names []string) liveNodes {
	nodes := client.MappingFor[*corev1.Node]()
	found := liveNodes{make([]bool, len(names)), make([]error, len(names))}
	slots := make(chan struct{}, liveAtOnce)
	var all sync.WaitGroup
	for i := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := reader.Get(ctx, nodes, plan.Key{Name: names[i]}, &metav1.PartialObjectMetadata{})
			if found.gone[i] = client.IsAbsent(err); err != nil && !found.gone[i] {
				found.errs[i] = fmt.Errorf("node %s: %w", names[i], err)
			}
		})
	}
	all.Wait()
	return found
}
