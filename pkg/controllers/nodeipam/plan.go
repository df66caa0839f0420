package nodeipam

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// atOnce is how many nodes get their ranges in one reconcile: each waits until the caches show what the one before
// has written.
const atOnce = 250

// snapshot is all nodes, and the ranges that there are to give out. Observe fills it, and planRanges reads
// it. Its objects belong to a shared cache.
type snapshot struct {
	// Pools are the ranges that are given out, one of each family.
	Pools    []pool
	Services []netip.Prefix // what no node gets
	// Nodes are all nodes that the cache has.
	Nodes  []*corev1.Node
	Memory memory
}

// memory is what is remembered from one reconcile to the next: which ranges are reserved, and which nodes
// cannot be written. planRanges makes it as part of the decision, and remember adds what has failed. Whatever
// was remembered is not changed any more.
type memory struct {
	// Next is the block of each pool from which on a free one is looked for: a block that was given back is used
	// again as late as possible.
	Next []uint64
	// Reserved are the ranges that nodes were to get, until the cache shows that they have some.
	Reserved map[types.UID][]netip.Prefix
	// LastEvent is the reason of the last event of a node.
	LastEvent map[types.UID]string
	// Failed are the nodes to which the last write has failed.
	Failed map[types.UID]failure
}

// failure is how a write to a node has failed.
type failure struct {
	// Why is the error, for people.
	Why string
	// Refused says how often in a row the API server did not accept the node, and Next when it is asked again:
	// another node that comes is no reason to ask.
	Refused int
	Next    time.Time
}

// leastPause and longestPause are how long a node waits that was not accepted.
const leastPause, longestPause = 100 * time.Millisecond, time.Minute

// decision is what the nodes have, and are to get. planRanges makes it; the memory and the metrics are made
// of it.
type decision struct {
	Memory    memory
	Allocated []spans // of each pool, with what nodes get now
	// of each pool: how many blocks that are taken were passed over, for each block that nodes get now
	Skipped [][]uint64
	Waiting int // nodes that get none, because a pool has none left
	Wrong   int // nodes with ranges that are not as they should be
}

// planRanges gives ranges to the nodes that have none.
func planRanges(now time.Time, s snapshot) (d decision, p plan.Plan) {
	s.Nodes = bySeniority(s.Nodes)
	allocated, problems := allocatedBlocks(s)
	d = decision{Allocated: allocated, Skipped: make([][]uint64, len(s.Pools)), Wrong: len(problems),
		Memory: memory{Next: slices.Clone(s.Memory.Next), Reserved: map[types.UID][]netip.Prefix{},
			LastEvent: map[types.UID]string{}, Failed: map[types.UID]failure{}}}
	if d.Memory.Next == nil {
		d.Memory.Next = make([]uint64, len(s.Pools))
	}
	var each [][]plan.Step
	first := 0 // of these, those that have not failed before: nodes that fail keep no others waiting
	for _, n := range s.Nodes {
		if says := problems[n.UID]; says != "" {
			p.Steps = append(p.Steps, d.recordEvent(s, n, corev1.EventTypeWarning, "CIDRNotValid", says)...)
		}
		ranges := s.Memory.Reserved[n.UID]
		switch {
		case len(n.Spec.PodCIDRs) > 0:
			continue
		case n.DeletionTimestamp != nil:
			if ranges != nil { // a write that was not answered may have been carried out (IPAM-71)
				d.Memory.Reserved[n.UID] = ranges
			}
			continue
		}
		if ranges == nil && first < atOnce {
			ranges = d.allocate(s.Pools)
		}
		switch {
		case ranges == nil && first == atOnce:
			p.Requeue = time.Millisecond // they are next
		case ranges == nil:
			d.Waiting++
			p.Steps = append(p.Steps,
				d.recordEvent(s, n, corev1.EventTypeNormal, "CIDRNotAvailable", exhausted(s.Pools, d.Allocated))...)
		default:
			d.Memory.Reserved[n.UID] = ranges
			failed := s.Memory.Failed[n.UID]
			if failed.Why != "" {
				d.Memory.Failed[n.UID] = failed
				p.Steps = append(p.Steps,
					d.recordEvent(s, n, corev1.EventTypeNormal, "CIDRAssignmentFailed", failed.Why)...)
			}
			if wait := failed.Next.Sub(now); wait > 0 {
				p.Requeue = plan.Sooner(p.Requeue, wait)
				continue
			}
			if each = append(each, []plan.Step{assign(n, ranges)}); failed.Why == "" {
				first++
			}
		}
	}
	p.Why = d.why(s, len(each))
	if len(each) > 0 {
		p.Steps = append(p.Steps, plan.Each{Sequences: each})
	}
	return d, p
}

// allocatedBlocks returns which blocks of each pool are taken, and what is wrong with the ranges of nodes, which are
// sorted by seniority. What of a wrong range is in a pool is taken, too.
func allocatedBlocks(s snapshot) (allocated []spans, problems map[types.UID]string) {
	allocated, problems = make([]spans, len(s.Pools)), map[types.UID]string{}
	users := make([][]user, len(s.Pools))
	for _, n := range s.Nodes {
		for _, text := range n.Spec.PodCIDRs {
			r, err := parse(text)
			if err != nil {
				problems[n.UID] = fmt.Sprintf("its range %q cannot be read", text)
				continue
			}
			i := slices.IndexFunc(s.Pools, func(p pool) bool { return p.Range.Overlaps(r) })
			if i < 0 || !s.Pools[i].has(r) {
				problems[n.UID] = fmt.Sprintf("its range %v is not in --cluster-cidr", r)
			}
			if i >= 0 {
				blocks, _ := s.Pools[i].overlap(r)
				users[i] = append(users[i], user{blocks, r, n})
			}
		}
		for i, r := range s.Memory.Reserved[n.UID] {
			if blocks, ok := s.Pools[i].overlap(r); ok && len(n.Spec.PodCIDRs) == 0 {
				allocated[i] = allocated[i].add(blocks)
			}
		}
	}
	for i, p := range s.Pools {
		conflicts(users[i], problems)
		for _, u := range users[i] {
			allocated[i] = allocated[i].add(u.blocks)
		}
		for _, r := range s.Services {
			if blocks, ok := p.overlap(r); ok {
				allocated[i] = allocated[i].add(blocks)
			}
		}
	}
	return allocated, problems
}

// user is a node that has a range.
type user struct {
	// blocks are those of the pool that its range takes.
	blocks span
	// has is the range that the node says it has.
	has  netip.Prefix
	node *corev1.Node
}

// conflicts adds the nodes that have addresses in common with an older node to the problems.
func conflicts(users []user, problems map[types.UID]string) {
	byRange := slices.SortedFunc(slices.Values(users),
		func(a, b user) int { return a.has.Addr().Compare(b.has.Addr()) })
	var widest user // of those before, the one that reaches farthest
	for i, u := range byRange {
		if i > 0 && widest.has.Overlaps(u.has) && widest.node.UID != u.node.UID {
			younger, older := u, widest
			if seniority(u.node, widest.node) < 0 {
				younger, older = widest, u
			}
			problems[younger.node.UID] = fmt.Sprintf("its range %v has addresses in common with %v of the node %s",
				younger.has, older.has, older.node.Name)
		}
		if i == 0 || u.blocks.last > widest.blocks.last || !widest.has.Overlaps(u.has) {
			widest = u
		}
	}
}

// allocate takes one block of each pool, or none at all.
func (d *decision) allocate(pools []pool) []netip.Prefix {
	numbers := make([]uint64, len(pools))
	for i, p := range pools {
		n, ok := d.Allocated[i].next(d.Memory.Next[i], p.last())
		if !ok {
			return nil
		}
		numbers[i] = n
	}
	ranges := make([]netip.Prefix, len(pools))
	for i, n := range numbers {
		ranges[i] = pools[i].block(n)
		d.Skipped[i] = append(d.Skipped[i], (n-d.Memory.Next[i])&pools[i].last())
		d.Allocated[i] = d.Allocated[i].add(span{n, n})
		if d.Memory.Next[i] = n + 1; n == pools[i].last() {
			d.Memory.Next[i] = 0
		}
	}
	return ranges
}

// assign is the step that gives ranges to a node. The precondition is its uid, so that another node of the name does
// not get them.
func assign(n *corev1.Node, ranges []netip.Prefix) plan.Step {
	after := *n // the rest is shared with it
	after.Spec.PodCIDRs = make([]string, len(ranges))
	for i, r := range ranges {
		after.Spec.PodCIDRs[i] = r.String()
	}
	after.Spec.PodCIDR = after.Spec.PodCIDRs[0]
	return plan.Change{Old: n, New: &after, Unowned: true,
		Why: fmt.Sprintf("the node %s gets %s", n.Name, strings.Join(after.Spec.PodCIDRs, ", "))}
}

// recordEvent returns the event that says something new of a node, and remembers it.
func (d *decision) recordEvent(s snapshot, n *corev1.Node, kind, reason, says string) []plan.Step {
	d.Memory.LastEvent[n.UID] = reason
	if s.Memory.LastEvent[n.UID] == reason {
		return nil
	}
	return []plan.Step{plan.RecordEvent{Object: n,
		Event: plan.Event{Type: kind, Reason: reason, Message: status(n.Name, reason) + ": " + says}}}
}

// status is how Kubernetes says it (IPAM-50, IPAM-51).
func status(node, reason string) string {
	return fmt.Sprintf("Node %s status is now: %s", node, reason)
}

// exhausted says which pools have no blocks left.
func exhausted(pools []pool, allocated []spans) string {
	var full []string
	for i, p := range pools {
		if _, ok := allocated[i].next(0, p.last()); !ok {
			full = append(full, fmt.Sprintf("all ranges of %d bits in %v are taken", p.Bits, p.Range))
		}
	}
	return strings.Join(full, ", ")
}

// why says in words how much is taken, and what is wrong.
func (d *decision) why(s snapshot, given int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes", len(s.Nodes))
	for i, p := range s.Pools {
		fmt.Fprintf(&b, ", %.0f of %.0f ranges in %v are taken", d.Allocated[i].count(), float64(p.last())+1, p.Range)
	}
	if given > 0 {
		fmt.Fprintf(&b, "; %d nodes get theirs", given)
	}
	if d.Waiting > 0 {
		fmt.Fprintf(&b, "; %d nodes wait, as %s", d.Waiting, exhausted(s.Pools, d.Allocated))
	}
	if d.Wrong > 0 {
		fmt.Fprintf(&b, "; %d nodes have ranges that are not as they should be", d.Wrong)
	}
	return b.String()
}

// bySeniority returns the nodes, the oldest first.
func bySeniority(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), seniority)
}

// seniority orders nodes by their age, and by name where that is the same.
func seniority(a, b *corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// remember keeps what was reserved, whatever became of the writes: one whose answer is lost may have been carried
// out, or may be yet.
func remember(now time.Time, _ snapshot, d decision, did plan.Outcome) *memory {
	m := d.Memory
	m.Failed = maps.Clone(m.Failed)
	for _, r := range did.Results {
		uid := r.Object.GetUID()
		before := m.Failed[uid]
		delete(m.Failed, uid)
		if r.Err == nil {
			continue
		}
		f := failure{Why: r.Err.Error()}
		if isRefusal(r.Err) {
			f.Refused, f.Next = before.Refused+1, now.Add(plan.Doubling(leastPause, longestPause, before.Refused))
		}
		m.Failed[uid] = f
	}
	return &m
}

// isRefusal reports whether the API server does not accept what a node is to get: because of the node, or of a policy.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 &&
		!errors.Is(err, plan.ErrStale) && !apierrors.IsTooManyRequests(err)
}
