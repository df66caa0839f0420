package suite

import (
	"fmt"
	"math"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const nodeTTL = "node.alpha.kubernetes.io/ttl"

// nodeTTLs are the values for clusters of more and more nodes, and how many these may have (TTL-3..7).
var nodeTTLs = map[string][2]int{"0": {0, 100}, "15": {90, 500}, "30": {450, 1000}, "60": {900, 2000}, "300": {1800, math.MaxInt}}

func nodeTTLEntry() Entry {
	return Entry{
		Controller: "ttl-controller",
		Operations: map[string]Operation{
			"nodettl": annotateNode, // NAME value=: without a value the annotation is taken off
			"crowd":   crowd,        // nodes=: there are so many nodes besides, on which nothing runs
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
			g.Add(at, "nodettl node-%d%s", g.IntN(3), workload.Pick(g, "", " value=7", " value=x", " value=00", " value=15"))
			if g.IntN(3) == 0 {
				g.Add(at, "crowd nodes=%d", workload.Pick(g, 90, 96, 98, 99, 105))
				g.Add(soon+10*time.Second, "crowd nodes=%d", workload.Pick(g, 0, 80, 90, 94, 99, 120))
				g.Add(soon+20*time.Second+g.Early(), "%s", workload.Pick(g, "wait", "fault m0 stop back=1s"))
			}
		}}},
		Settled: nodeTTLsSettled,
		Scenarios: []Scenario{{Name: "annotations of nodes", Play: func(u *User) {
			u.AddNodes(3)
			for i := range 3 {
				for _, value := range []any{"7", nil, "x"} {
					u.annotateNode(i, value)
					u.waitNodeTTL(i)
				}
			}
		}}},
		Malformed: map[string]string{
			"minions/absurd-node": `{"apiVersion":"v1","kind":"Node","metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"1e1","":""},${META}},
				"spec":{"unschedulable":true,"taints":[{"key":"","effect":"Perhaps"}]}}`,
		},
		Mutants: nodeTTLMutants,
		Budgets: []Budget{{
			Name: "20 nodes come", Floor: floor.Writes{Other: 20},
			Do: func(u *User) {
				u.AddNodes(20)
				for i := range 20 {
					u.waitNodeTTL(i)
				}
			},
		}},
	}
}

// annotateNode is what a user should not do.
func annotateNode(u *User, l script.Line) error {
	value, ok := l.Get("value")
	return edit(u, u.unique(l.Arg(0)), func(n *corev1.Node) {
		delete(n.Annotations, nodeTTL)
		if ok {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, nodeTTL, value)
		}
	})
}

// idleNode is one that nothing runs on.
func idleNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{{Key: "idle", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// crowd creates nodes that no pods run on, or deletes those that are too many.
func crowd(u *User, l script.Line) error {
	wanted, _ := l.Int("nodes")
	nodes, err := list[*corev1.Node](u)
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for _, n := range nodes {
		exists[n.Name] = true
	}
	for i := 0; ; i++ {
		name := u.unique(fmt.Sprintf("idle-%03d", i))
		switch {
		case i < wanted && !exists[name]:
			if err := create(u, idleNode(name)); err != nil {
				return err
			}
		case i >= wanted && exists[name]:
			if err := remove[*corev1.Node](u, name); err != nil {
				return err
			}
		case i >= wanted:
			return nil
		}
	}
}

// nodeTTLsSettled checks that all nodes have the annotation of a class that fits their number, and that the manager has written nothing
// else, and no annotation that need not have changed.
func nodeTTLsSettled(s *View) (wrong []string) {
	nodes := subjects[*corev1.Node](s)
	seen := map[string]bool{}
	for _, n := range nodes {
		value := n.Annotations[nodeTTL]
		if value == "00" { // TTL-10
			value = "0"
		}
		seen[value] = true
		if class, ok := nodeTTLs[value]; !ok || len(nodes) < class[0] || len(nodes) > class[1] {
			wrong = append(wrong,
				fmt.Sprintf("the node %s is one of %d and has the annotation %q", n.Name, len(nodes), n.Annotations[nodeTTL]))
		}
	}
	if len(seen) > 1 {
		wrong = append(wrong, fmt.Sprintf("the nodes have different annotations: %v", seen))
	}
	var all sameClass
	for _, e := range s.Changes("nodes") {
		wrong = append(wrong, all.see(e)...)
	}
	return wrong
}

// sameClass follows what all nodes have in common.
type sameClass struct {
	values map[string]string // by the names of the nodes
	common string            // that all nodes have had, empty for none
	left   bool              // the number of nodes has not fitted it since then
}

// see returns what is wrong with a change of a node, if a manager has made it.
func (c *sameClass) see(e Change) (wrong []string) {
	if c.values == nil {
		c.values = map[string]string{}
	}
	after := e.Object.(*corev1.Node)
	if before, ok := e.Before.(*corev1.Node); ok && e.Managed && before.Annotations[nodeTTL] != after.Annotations[nodeTTL] {
		if diff := besides(before, after, func(n *corev1.Node) { delete(n.Annotations, nodeTTL) }); diff != "" {
			wrong = append(wrong, fmt.Sprintf("the manager has changed more of %s than the annotation: %s", after.Name, diff))
		}
		if was := before.Annotations[nodeTTL]; was == c.common && was != "" && !c.left { // TTL-8, TTL-15
			wrong = append(wrong,
				fmt.Sprintf("of %d nodes, which all had the annotation %q, %s got %q", len(c.values), was, after.Name,
					after.Annotations[nodeTTL]))
		}
	}
	c.values[after.Name] = after.Annotations[nodeTTL]
	if e.Deleted {
		delete(c.values, after.Name)
	}
	if value := after.Annotations[nodeTTL]; value != c.common && c.allHave(value) {
		c.common, c.left = value, false
	}
	if n := len(c.values); n < nodeTTLs[c.common][0] || n > nodeTTLs[c.common][1] {
		c.left = true // or it has never fitted: a user may annotate the only node
	}
	return wrong
}

// besides is what differs between two states of a node, without what is taken away from both.
func besides(before, after *corev1.Node, takeAway func(*corev1.Node)) string {
	a, b := before.DeepCopy(), after.DeepCopy()
	for _, n := range []*corev1.Node{a, b} {
		takeAway(n)
		n.ResourceVersion, n.ManagedFields = "", nil
	}
	return cmp.Diff(a, b, cmpopts.EquateEmpty())
}

// allHave reports whether all nodes have a value that the controller writes.
func (c *sameClass) allHave(value string) bool {
	_, ok := nodeTTLs[value]
	for _, other := range c.values {
		ok = ok && other == value
	}
	return ok
}

const ttlFolder = "pkg/controllers/ttl/"

var nodeTTLMutants = []Mutant{
	{
		Name: "edits of the annotation of nodes stay",
		Edits: []Edit{{ttlFolder + "observe.go", "ok && !right(node, k.class()) {",
			"ok && !right(node, k.class()) && node.Annotations[annotation] == \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 10s  nodettl node-0 value=7",
		Oracle: SettledOracle,
	},
	{
		Name:   "nodes do not follow when there are many",
		Edits:  []Edit{{ttlFolder + "observe.go", "return was.Class != is.Class", "return false"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=90\n\t\t\tat 20s  crowd nodes=110",
		Oracle: SettledOracle,
	},
	{
		Name:   "the 101st node is not too many",
		Edits:  []Edit{{ttlFolder + "plan.go", "{0, 100, 0}, {90, 500, 15}", "{0, 101, 0}, {90, 500, 15}"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=98",
		Oracle: SettledOracle,
	},
	{
		Name:   "a node that goes changes the annotations of all others",
		Edits:  []Edit{{ttlFolder + "plan.go", "for nodes < all[before].fewest {", "for before > 0 && nodes <= all[before-1].most {"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=110\n\t\t\tat 30s  crowd nodes=90",
		Oracle: SettledOracle,
	},
	{
		Name:   "a new process forgets the class of the cluster's size",
		Edits:  []Edit{{ttlFolder + "plan.go", "(found == unknown || annotated[i] > annotated[found])", "found == unknown"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=110\n\t\t\tat 30s  crowd nodes=90\n\t\t\tat 50s  fault m0 stop back=1s",
		Oracle: SettledOracle,
	},
}

// annotateNode changes the annotation, or takes it off.
func (u *User) annotateNode(i int, value any) {
	u.Helper()
	document := `{"metadata":{"annotations":{"` + nodeTTL + `":null}}}`
	if value != nil {
		document = fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, nodeTTL, value)
	}
	Patch[*corev1.Node](u, u.nodeName(i), document)
}

// waitNodeTTL waits until the annotation is that of a small cluster.
func (u *User) waitNodeTTL(i int) {
	u.Helper()
	Await(u, u.nodeName(i), func(n *corev1.Node) error {
		_, ok := nodeTTLs[n.Annotations[nodeTTL]]
		return unless(ok, n.Annotations)
	})
}
