package suite

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// What nodes get ranges from in the simulation, as flags of managers have it: 64 of each family, of which Services have the first of IPv4.
const (
	ClusterCIDR  = "10.64.0.0/18,fd00:64::/58"
	ServiceRange = "10.64.0.0/24"
	mostRanges   = 63
)

func nodeIPAMEntry() Entry {
	return Entry{
		Controller: "node-ipam-controller",
		Operations: map[string]Operation{
			"renode": renewNode, // NAME: the node is deleted, and another one of the name created
			"range":  giveRange, // NAME: a user gives a range to a node that has none
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
			g.Add(at, "crowd nodes=%d", workload.Pick(g, 10, 60, 64, 80))
			g.Add(soon, "renode idle-%03d", g.IntN(20))
			if g.IntN(3) == 0 {
				g.Add(soon+g.Early(), "node idle-%03d do=remove", g.IntN(10))
			}
			if g.IntN(3) == 0 {
				g.Add(soon, "range idle-%03d", g.IntN(80))
				g.Add(soon+time.Second, "crowd nodes=%d", workload.Pick(g, 0, 20, 62))
			}
		}}},
		Settled: rangesSettled,
		Scenarios: []Scenario{{Name: "ranges of nodes", Play: func(u *User) {
			u.withoutRanges(0, 3)
			u.waitRanges(0, 3)
			u.Each(2, func(i int) error { return ignoreNotFound(remove[*corev1.Node](u, u.nodeName(i))) })
			u.withoutRanges(0, 4)
			u.waitRanges(0, 4)
		}}},
		Malformed: map[string]string{
			"minions/absurd-ranges": `{"apiVersion":"v1","kind":"Node","metadata":${META},"spec":{"podCIDR":"10.64.1.0/33","podCIDRs":["","x","10.64.0.0/8","10.64.1.0/24"]}}`,
		},
		Mutants: nodeIPAMMutants,
		Budgets: []Budget{{
			Name: "20 nodes without ranges come", Floor: floor.Writes{Other: 40}, // each gets the annotation of its cluster's size, too
			Do: func(u *User) {
				u.withoutRanges(0, 20)
				u.waitRanges(0, 20)
			},
		}},
	}
}

func renewNode(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	if err := ignoreNotFound(remove[*corev1.Node](u, name)); err != nil {
		return err
	}
	return ignoreExists(create(u, idleNode(name)))
}

// giveRange gives one that is in no --cluster-cidr.
func giveRange(u *User, l script.Line) error {
	return edit(u, u.unique(l.Arg(0)), func(n *corev1.Node) {
		if len(n.Spec.PodCIDRs) == 0 {
			n.Spec.PodCIDR = "192.168.7.0/24"
			n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		}
	})
}

// withoutRanges creates nodes that have no ranges.
func (u *User) withoutRanges(from, to int) {
	u.Helper()
	u.Each(to-from, func(i int) error {
		n := u.newNode(from + i)
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil
		return ignoreExists(create(u, n))
	})
	u.Cleanup(func() {
		u.Each(to-from, func(i int) error { return ignoreNotFound(remove[*corev1.Node](u, u.nodeName(from+i))) })
	})
}

// waitRanges waits until nodes have a range of each family.
func (u *User) waitRanges(from, to int) {
	u.Helper()
	for i := from; i < to; i++ {
		Await(u, u.nodeName(i), func(n *corev1.Node) error { return unless(len(n.Spec.PodCIDRs) == 2, n.Spec) })
	}
}

// rangesSettled checks that each node has its own ranges, as long as there are any. That no two share one at any time is S26.
func rangesSettled(v *View) (wrong []string) {
	taken, waiting := map[netip.Prefix]string{}, 0
	for _, n := range subjects[*corev1.Node](v) {
		if len(n.Spec.PodCIDRs) == 0 {
			waiting++
		}
		wrong = append(wrong, rangesOf(n)...)
		for _, r := range ranges(n) {
			if other := taken[r]; other != "" {
				wrong = append(wrong, fmt.Sprintf("the nodes %s and %s both have %v", other, n.Name, r))
			}
			taken[r] = n.Name
		}
	}
	changes := v.Changes("nodes")
	if free := mostRanges - len(taken)/2; waiting > 0 && (free > 0 || changes == nil) { // on a real control plane there are many more
		wrong = append(wrong, fmt.Sprintf("%d nodes have no ranges, and %d ranges are free", waiting, free))
	}
	return append(wrong, onlyRanges(changes)...)
}

// onlyRanges looks at each write of ranges: whether it was one of anything else.
func onlyRanges(changes []Change) (wrong []string) {
	for _, c := range changes {
		after := c.Object.(*corev1.Node)
		before, ok := c.Before.(*corev1.Node)
		if !ok || !c.Managed || c.Deleted || !setsRanges(before, after) {
			continue
		}
		if diff := besides(before, after, func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil }); diff != "" {
			wrong = append(wrong, fmt.Sprintf("the manager has changed more of %s than that it got ranges: %s", after.Name, diff))
		}
	}
	return wrong
}

// setsRanges reports whether a change of a node is one of its ranges.
func setsRanges(before, after *corev1.Node) bool {
	return !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs)
}

// ranges are those of a node that a manager may have given.
func ranges(n *corev1.Node) (all []netip.Prefix) {
	for _, text := range n.Spec.PodCIDRs {
		r, err := netip.ParsePrefix(text)
		if err == nil &&
			(r.Bits() == 24 && netip.MustParsePrefix("10.0.0.0/8").Contains(r.Addr()) ||
				r.Bits() == 64 && netip.MustParsePrefix("fd00:64::/48").Contains(r.Addr())) {
			all = append(all, r)
		}
	}
	return all
}

// rangesOf says what is wrong with the ranges of a node by itself.
func rangesOf(n *corev1.Node) (wrong []string) {
	all := ranges(n)
	switch {
	case len(all) == 0: // it has none, or some that a user has given
	case len(all) != 2 || !all[0].Addr().Is4() || all[1].Addr().Is4() || n.Spec.PodCIDR != n.Spec.PodCIDRs[0]:
		wrong = append(wrong, fmt.Sprintf("the node %s has the ranges %s and %v", n.Name, n.Spec.PodCIDR, n.Spec.PodCIDRs))
	case all[0].String() == ServiceRange:
		wrong = append(wrong, fmt.Sprintf("the node %s has the range of Services, %s", n.Name, ServiceRange))
	}
	return wrong
}

const nodeIPAMFolder = "pkg/controllers/nodeipam/"

var nodeIPAMMutants = []Mutant{
	{
		Name: "nodes that come together get the same ranges",
		Edits: []Edit{{nodeIPAMFolder + "plan.go", "d.Allocated[i] = d.Allocated[i].add(span{n, n})\n\t\tif d.Memory.Next[i] = n + 1;",
			"if d.Memory.Next[i] = n;"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=10",
		Oracle: "S26",
	},
	{
		Name:   "what nodes have is given to others",
		Edits:  []Edit{{nodeIPAMFolder + "plan.go", "allocated[i] = allocated[i].add(u.blocks)", "_ = u.blocks"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=10\n\t\t\tat 30s  fault m0 stop back=1s\n\t\t\tat 50s  crowd nodes=20",
		Oracle: "S26",
	},
	{
		Name:   "a node that waits does not get the range of one that is gone",
		Edits:  []Edit{{nodeIPAMFolder + "observe.go", "if ok1 && ok2 &&", "if after == nil || ok1 && ok2 &&"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=70\n\t\t\tat 30s  node idle-003 do=remove",
		Oracle: SettledOracle,
	},
	{
		Name: "podCIDR is not the first of podCIDRs",
		Edits: []Edit{{nodeIPAMFolder + "plan.go", "after.Spec.PodCIDR = after.Spec.PodCIDRs[0]",
			"after.Spec.PodCIDR = after.Spec.PodCIDRs[len(ranges)-1]"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=3",
		Oracle: SettledOracle,
	},
	{
		Name:   "nodes get addresses of Services",
		Edits:  []Edit{{nodeIPAMFolder + "plan.go", "for _, r := range s.Services {", "for _, r := range s.Services[:0] {"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=3",
		Oracle: SettledOracle,
	},
}
