package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// node is one that came so many seconds after epoch, with ranges.
func node(name string, came int, ranges ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(came) * time.Second))}}
	if n.Spec.PodCIDRs = ranges; len(ranges) > 0 {
		n.Spec.PodCIDR = ranges[0]
	}
	return n
}

func leaving(n *corev1.Node) *corev1.Node {
	n.DeletionTimestamp = &metav1.Time{Time: epoch}
	return n
}

// of is a pool, written as its range and the bits of a block.
func of(text string, bits int) pool { return pool{netip.MustParsePrefix(text), bits} }

func prefixes(all ...string) (p []netip.Prefix) {
	for _, text := range all {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

// said is a plan as text: what nodes get, and events.
func said(p plan.Plan) (all []string) {
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.RecordEvent:
			all = append(all, s.Event.Type+" "+s.Event.Reason+" "+s.Event.Message)
		case plan.Each:
			for _, steps := range s.Sequences {
				c := steps[0].(plan.Change)
				after := c.New.(*corev1.Node)
				all = append(all, fmt.Sprintf("%s gets %s %v", c.Old.GetName(), after.Spec.PodCIDR, after.Spec.PodCIDRs))
			}
		}
	}
	return all
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	small, six := []pool{of("10.0.0.0/22", 24)}, of("fd00::/63", 64)
	for _, c := range []struct {
		name string
		snapshot
		want []string
	}{
		{"IPAM-37, IPAM-38 a node gets the first block", snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0)}},
			[]string{"a gets 10.0.0.0/24 [10.0.0.0/24]"}},
		{"older nodes come first", snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 1), node("b", 0)}},
			[]string{"b gets 10.0.0.0/24 [10.0.0.0/24]", "a gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-29 what a node has is taken", snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/24"), node("b", 0)}},
			[]string{"b gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-29 a larger range takes all its blocks, a smaller one the block around it",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/23"), node("b", 0, "10.0.2.64/26"), node("c", 0)}},
			[]string{"c gets 10.0.3.0/24 [10.0.3.0/24]"}},
		{"IPAM-28 ranges of Services are taken",
			snapshot{Pools: small, Services: prefixes("10.0.0.0/24", "fd00::/112"), Nodes: []*corev1.Node{node("a", 0)}},
			[]string{"a gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-45 a node that is being deleted keeps its range, and gets none",
			snapshot{Pools: small, Nodes: []*corev1.Node{leaving(node("a", 0, "10.0.0.0/24")), leaving(node("b", 0)), node("c", 0)}},
			[]string{"c gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-37 a block that was given back is used late",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0)}, Memory: memory{Next: []uint64{2}}},
			[]string{"a gets 10.0.2.0/24 [10.0.2.0/24]"}},
		{"and after the last one comes the first",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0), node("b", 0)}, Memory: memory{Next: []uint64{3}}},
			[]string{"a gets 10.0.3.0/24 [10.0.3.0/24]", "b gets 10.0.0.0/24 [10.0.0.0/24]"}},
		{"both families, in their order", snapshot{Pools: []pool{six, small[0]}, Nodes: []*corev1.Node{node("a", 0)}},
			[]string{"a gets fd00::/64 [fd00::/64 10.0.0.0/24]"}},
		{"IPAM-74 ranges in another order, or of one family, stay",
			snapshot{Pools: []pool{six, small[0]},
				Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/24", "fd00::/64"), node("b", 0, "10.0.1.0/24"), node("c", 0)}},
			[]string{"c gets fd00:0:0:1::/64 [fd00:0:0:1::/64 10.0.2.0/24]"}},
		{"IPAM-63 both families or none",
			snapshot{Pools: []pool{small[0], six},
				Nodes: []*corev1.Node{node("a", 0, "10.0.9.0/24", "fd00::/64"), node("b", 0, "10.0.3.0/24", "fd00:0:0:1::/64"),
					node("c", 1)}},
			[]string{"Warning CIDRNotValid Node a status is now: CIDRNotValid: its range 10.0.9.0/24 is not in --cluster-cidr",
				"Normal CIDRNotAvailable Node c status is now: CIDRNotAvailable: all ranges of 64 bits in fd00::/63 are taken"}},
		{"IPAM-41 no block is left",
			snapshot{Pools: []pool{of("10.0.0.0/24", 24)}, Nodes: []*corev1.Node{node("a", 0), node("b", 1), node("c", 2)}},
			[]string{"Normal CIDRNotAvailable Node b status is now: CIDRNotAvailable: all ranges of 24 bits in 10.0.0.0/24 are taken",
				"Normal CIDRNotAvailable Node c status is now: CIDRNotAvailable: all ranges of 24 bits in 10.0.0.0/24 are taken",
				"a gets 10.0.0.0/24 [10.0.0.0/24]"}},
		{"IPAM-76 that is said once",
			snapshot{Pools: []pool{of("10.0.0.0/24", 24)}, Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/24"), node("b", 1)},
				Memory: memory{LastEvent: map[types.UID]string{"uid-b": "CIDRNotAvailable"}}}, nil},
		{"IPAM-28 a range of Services around all",
			snapshot{Pools: small, Services: prefixes("10.0.0.0/8"), Nodes: []*corev1.Node{node("a", 0)}},
			[]string{"Normal CIDRNotAvailable Node a status is now: CIDRNotAvailable: all ranges of 24 bits in 10.0.0.0/22 are taken"}},
		{"IPAM-62 a wrong node does not stop the others",
			snapshot{Pools: small,
				Nodes: []*corev1.Node{node("a", 0, "x"), node("b", 0, "11.0.0.0/24"), node("c", 0, "10.0.0.0/8"), node("d", 0)}},
			[]string{`Warning CIDRNotValid Node a status is now: CIDRNotValid: its range "x" cannot be read`,
				"Warning CIDRNotValid Node b status is now: CIDRNotValid: its range 11.0.0.0/24 is not in --cluster-cidr",
				"Warning CIDRNotValid Node c status is now: CIDRNotValid: its range 10.0.0.0/8 is not in --cluster-cidr",
				"Normal CIDRNotAvailable Node d status is now: CIDRNotAvailable: all ranges of 24 bits in 10.0.0.0/22 are taken"}},
		{"IPAM-61 the younger of two nodes with one block is told of",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 5, "10.0.0.0/24"), node("b", 0, "10.0.0.0/24"), node("c", 9)}},
			[]string{"Warning CIDRNotValid Node a status is now: CIDRNotValid: its range 10.0.0.0/24 has addresses in common with " +
				"10.0.0.0/24 of the node b", "c gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-61 small ranges in one block are no conflict",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/26"), node("b", 0, "10.0.0.64/26"), node("c", 9)}},
			[]string{"c gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-71 what was reserved for a node is written again", snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0), node("b", 0)},
			Memory: memory{Next: []uint64{3}, Reserved: map[types.UID][]netip.Prefix{"uid-b": prefixes("10.0.2.0/24")},
				Failed: map[types.UID]failure{"uid-b": {Why: "a timeout"}}}},
			[]string{"Normal CIDRAssignmentFailed Node b status is now: CIDRAssignmentFailed: a timeout",
				"a gets 10.0.3.0/24 [10.0.3.0/24]", "b gets 10.0.2.0/24 [10.0.2.0/24]"}},
		{"IPAM-62 a node that was not accepted waits, and keeps what is reserved for it",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0), node("b", 1)},
				Memory: memory{Next: []uint64{1}, Reserved: map[types.UID][]netip.Prefix{"uid-a": prefixes("10.0.0.0/24")},
					LastEvent: map[types.UID]string{"uid-a": "CIDRAssignmentFailed"},
					Failed:    map[types.UID]failure{"uid-a": {Why: "invalid", Refused: 3, Next: epoch.Add(time.Second)}}}},
			[]string{"b gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-71 what was reserved for a node that is being deleted is not free",
			snapshot{Pools: small, Nodes: []*corev1.Node{deleting(node("a", 0)), node("b", 1)},
				Memory: memory{Reserved: map[types.UID][]netip.Prefix{"uid-a": prefixes("10.0.0.0/24")}}},
			[]string{"b gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-58 what was reserved for another node of the name is free again", snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0)},
			Memory: memory{Next: []uint64{1}, Reserved: map[types.UID][]netip.Prefix{"uid-old": prefixes("10.0.1.0/24")}}},
			[]string{"a gets 10.0.1.0/24 [10.0.1.0/24]"}},
		{"IPAM-39 other ranges than those reserved are as good",
			snapshot{Pools: small, Nodes: []*corev1.Node{node("a", 0, "10.0.0.0/24"), node("b", 1)},
				Memory: memory{Next: []uint64{3}, Reserved: map[types.UID][]netip.Prefix{"uid-a": prefixes("10.0.3.0/24")}}},
			[]string{"b gets 10.0.3.0/24 [10.0.3.0/24]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, p := planRanges(epoch, c.snapshot)
			if diff := cmp.Diff(c.want, said(p)); diff != "" {
				t.Error(diff)
			}
			for _, n := range c.Nodes {
				was := c.Memory.Reserved[n.UID]
				if was != nil && len(n.Spec.PodCIDRs) == 0 && !slices.Equal(was, d.Memory.Reserved[n.UID]) {
					t.Errorf("%s had reserved %v, and has %v", n.Name, was, d.Memory.Reserved[n.UID])
				}
			}
			if p.Why == "" || len(d.Allocated) != len(c.Pools) {
				t.Errorf("%+v: %q", d, p.Why)
			}
		})
	}
}

func deleting(n *corev1.Node) *corev1.Node {
	n.DeletionTimestamp = &metav1.Time{Time: epoch}
	return n
}

// Many nodes get theirs a few hundred at a time.
func TestManyNodes(t *testing.T) {
	s := snapshot{Pools: []pool{of("10.0.0.0/8", 24)}}
	for i := range atOnce + 10 {
		s.Nodes = append(s.Nodes, node(fmt.Sprint("n-", i), i))
	}
	d, p := planRanges(epoch, s)
	if got := said(p); len(got) != atOnce || p.Requeue == 0 || d.Waiting != 0 || len(d.Memory.Reserved) != atOnce {
		t.Errorf("%d nodes get theirs, again in %v, %d wait, %d have one reserved", len(got), p.Requeue, d.Waiting, len(d.Memory.Reserved))
	}
	if want := "260 nodes, 250 of 65536 ranges in 10.0.0.0/8 are taken; 250 nodes get theirs"; p.Why != want {
		t.Errorf("%s, want %s", p.Why, want)
	}
}

// IPAM-75: the size of the pool costs nothing.
func BenchmarkPlan(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000, 10_000} {
		for _, p := range []pool{of("10.0.0.0/8", 24), of("fd00::/32", 96)} {
			s := snapshot{Pools: []pool{p}, Nodes: []*corev1.Node{node("new", nodes)}}
			for i := range nodes {
				s.Nodes = append(s.Nodes, node(fmt.Sprint("n-", i), i, p.block(uint64(i)).String()))
			}
			b.Run(fmt.Sprintf("nodes=%d/pool=%s", nodes, strings.ReplaceAll(p.Range.String(), "/", "-")), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, p := planRanges(epoch, s); p.Empty() {
						b.Fatal(p.Why)
					}
				}
			})
		}
	}
}
