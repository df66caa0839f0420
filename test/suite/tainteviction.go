package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func taintEvictionEntry() Entry {
	return Entry{
		Controller: "taint-eviction-controller",
		Operations: map[string]Operation{
			// NAME n= node= seconds=: pods on a node that tolerate the taint drain so long; without seconds= for ever
			"tolerant": tolerantPods,
			"drain":    drain, // NODE added=, in seconds ago: a NoExecute taint besides those that it has; do=end takes it off
		},
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			node := g.Node()
			g.Add(at, "tolerant tol-%s n=%d node=%s seconds=%d", app, 1+g.IntN(4), node, workload.Pick(g, 0, 5, 20, 60))
			g.Add(soon, "drain %s", node)
			g.Add(soon+workload.Pick(g, 2*time.Second, 10*time.Second, 30*time.Second), "drain %s do=end", node)
		}}, {Weight: 1, Add: randomTaints}},
		Settled: evictionsSettled,
		Scenarios: []Scenario{{Name: "a node is drained by a taint", Play: func(u *User) {
			node := u.newNode(700)
			u.Create(node)
			u.Cleanup(func() {
				u.removeNode(node.Name)
			})
			for i := range 6 {
				u.tolerant(fmt.Sprintf("soon-%d", i), node.Name, 1)
				u.tolerant(fmt.Sprintf("never-%d", i), node.Name, -1)
			}
			u.Try("taint the node", func() error { return u.setDrain(node.Name, 0) })
			u.Wait("the pods are evicted that do not tolerate the taint for long", Patience, func() error { return u.remain(node.Name, 6) })
		}}},
		Malformed: map[string]string{
			"minions/absurd-taints": `{"apiVersion":"v1","kind":"Node","metadata":${META},"spec":{"taints":[{"key":"","effect":"NoExecute"},{"key":"a/b/c","effect":"NoExecute","timeAdded":"0001-01-01T00:00:00Z"}]}}`,
		},
		Mutants: taintEvictionMutants,
		Budgets: []Budget{{
			Name: "10 pods are evicted", Floor: floor.Writes{Status: 10, Other: 10},
			Prepare: func(u *User) {
				u.Create(u.newNode(701))
				for i := range 10 {
					u.tolerant(fmt.Sprintf("out-%d", i), u.nodeName(701), 0)
				}
			},
			Do: func(u *User) {
				u.Try("taint the node", func() error { return u.setDrain(u.nodeName(701), 0) })
				u.Wait("the pods are evicted", Patience, func() error { return u.remain(u.nodeName(701), 0) })
			},
		}},
	}
}

// randomTaints has pods come to a node that has taints, of which some have effects on pods, and some were added long ago.
func randomTaints(g *workload.Generator, app string, at, soon time.Duration) {
	node := g.Node()
	mark := func() {
		g.Add(at, "mark %s taint=%s", node, workload.Pick(g, "NoExecute", "NoExecute", "NoSchedule", "PreferNoSchedule"))
	}
	if g.IntN(2) == 0 {
		mark()
	}
	if g.IntN(3) > 0 {
		g.Add(at+time.Millisecond, "drain %s added=%d", node, workload.Pick(g, 0, 30, 1000))
	}
	g.Add(soon, "tolerant late-%s n=%d node=%s%s", app, 1+g.IntN(3), node,
		workload.Pick(g, "", " seconds=0", " seconds=40", " seconds=600"))
	if at = soon + g.Early(); g.IntN(3) == 0 {
		mark() // in place of all that it has
	}
}

const drainTaint = "example.com/drain"

func tolerantPods(u *User, l script.Line) error {
	n, _ := l.Int("n")
	node, _ := l.Get("node")
	seconds, ok := l.Int("seconds")
	if !ok {
		seconds = -1
	}
	for i := range n {
		if err := ignoreExists(create(u, tolerantPod(fmt.Sprintf("%s-%d", l.Arg(0), i), u.unique(node), seconds))); err != nil {
			return err
		}
	}
	return nil
}

// tolerantPod is on a node, and tolerates the taint for so many seconds; negative: for ever.
func tolerantPod(name, node string, seconds int) *corev1.Pod {
	p := newPod(name, "tolerant", "good:1")
	p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody"
	t := corev1.Toleration{Key: drainTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		long := int64(seconds)
		t.TolerationSeconds = &long
	}
	p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	return p
}

func (u *User) tolerant(name, node string, seconds int) {
	u.Helper()
	u.Create(tolerantPod(name, node, seconds))
}

func drain(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "end" {
		return ignoreNotFound(edit(u.as("admin"), u.unique(l.Arg(0)), func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == drainTaint })
		}))
	}
	ago, _ := l.Int("added")
	return ignoreNotFound(u.setDrain(u.unique(l.Arg(0)), ago))
}

// setDrain gives a node the taint, as one that was added so many seconds ago.
func (u *User) setDrain(node string, ago int) error {
	return edit(u.as("admin"), node, func(n *corev1.Node) {
		if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drainTaint }) {
			added := metav1.NewTime(time.Now().Add(-time.Duration(ago) * time.Second))
			n.Spec.Taints = append(slices.Clone(n.Spec.Taints),
				corev1.Taint{Key: drainTaint, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added})
		}
	})
}

// remain says which pods of the user are on a node and not being deleted, unless there are so many.
func (u *User) remain(node string, wanted int) error {
	pods, err := list[*corev1.Pod](u)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range pods {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return unless(len(names) == wanted, names)
}

// evictionsSettled checks that no pod is left that is due for 5 s.
func evictionsSettled(v *View) (wrong []string) {
	nodes := map[string]*corev1.Node{}
	for _, n := range all[*corev1.Node](v) {
		nodes[n.Name] = n
	}
	for _, p := range subjects[*corev1.Pod](v) {
		n := nodes[p.Spec.NodeName]
		if n == nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, t := range n.Spec.Taints {
			if t.Effect == corev1.TaintEffectNoExecute && shouldBeGone(p, t) {
				wrong = append(wrong,
					fmt.Sprintf("%s/%s is still on %s, which has the taint %s, with the tolerations %v", p.Namespace, p.Name, n.Name,
						t.ToString(), p.Spec.Tolerations))
			}
		}
	}
	return wrong
}

// shouldBeGone reports whether a pod should have gone at least 5 s ago, for a taint.
func shouldBeGone(p *corev1.Pod, t corev1.Taint) bool {
	i := slices.IndexFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
		return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == "" || o.Key == t.Key) &&
			(o.Operator == corev1.TolerationOpExists || o.Value == t.Value)
	})
	if i < 0 {
		return true
	}
	seconds := p.Spec.Tolerations[i].TolerationSeconds
	if seconds == nil || t.TimeAdded == nil {
		return false
	}
	began := t.TimeAdded.Time
	if c := p.CreationTimestamp.Time; c.After(began) {
		began = c
	}
	return time.Since(began) > time.Duration(*seconds+6)*time.Second
}

const taintEvictionFolder = "pkg/controllers/tainteviction/"

var taintEvictionMutants = []Mutant{
	{
		Name:  "the longest toleration counts",
		Edits: []Edit{{taintEvictionFolder + "plan.go", "d.Due.IsZero() || at.Before(d.Due)", "d.Due.IsZero() || d.Due.Before(at)"}},
		Script: withoutElection +
			"\n\t\t\tset heal 0\n\t\t\tat 1s   mark node-0 taint=NoExecute\n\t\t\tat 2s   drain node-0\n\t\t\tat 20s  tolerant t n=3 " +
			"node=node-0 seconds=600",
		Oracle: SettledOracle,
	},
	{
		Name: "taints without effect on pods count",
		Edits: []Edit{{taintEvictionFolder + "observe.go", "return t.Effect != corev1.TaintEffectNoExecute })",
			"return t.Effect == corev1.TaintEffectPreferNoSchedule })"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   tolerant t n=3 node=node-0\n\t\t\tat 10s  drain node-0\n\t\t\tat 20s  mark node-0 taint=NoSchedule\n\t\t\tat " +
			"21s  drain node-0",
		Oracle: "S27",
	},
	{
		Name: "a taint is over when the pod is bound",
		Edits: []Edit{{taintEvictionFolder + "plan.go", "if b := bound(s.Pod); at.Before(b) && b.Before(now) {",
			"if b := bound(s.Pod); at.Before(b) && now.Before(b) {"}},
		Script: withoutElection + "\n\t\t\tat 1s   drain node-0 added=1000\n\t\t\tat 20s  tolerant t n=3 node=node-0 seconds=60",
		Oracle: "S27",
	},
	{
		Name:  "nodes are not read live",
		Edits: []Edit{{taintEvictionFolder + "plan.go", "p.Proof = []plan.Ref{nodeOf(s.Pod)}", "p.Proof = nil"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   tolerant t n=3 node=node-0 seconds=60\n\t\t\tat 10s  drain node-0\n\t\t\tat 30s  fault m0 freeze nodes " +
			"for=60s\n\t\t\tat 40s  drain node-0 do=end",
		Oracle: "S27",
	},
	{
		Name: "pods that come to a tainted node stay",
		Edits: []Edit{{taintEvictionFolder + "observe.go", "if !ok || !tainted(k.nodes.Get(pod.Spec.NodeName)) {",
			"if !ok || tainted(k.nodes.Get(pod.Spec.NodeName)) {"}},
		Script: withoutElection + "\n\t\t\tat 1s   mark node-0 taint=NoExecute\n\t\t\tat 20s  tolerant t n=3 node=node-0 seconds=0",
		Oracle: SettledOracle,
	},
	{
		Name: "an eviction that fails is given up",
		Edits: []Edit{{taintEvictionFolder + "plan.go", "d.Evict, d.LastEvent = true, evicting",
			"if d.LastEvent = evicting; s.Memory.LastEvent == evicting {\n\t\t\tbreak\n\t\t}\n\t\td.Evict = true"}},
		Script: withoutElection +
			"\n\t\t\tset heal 0\n\t\t\tat 1s   tolerant t n=3 node=node-0 seconds=0\n\t\t\tat 9s   fault m0 refuse code=500 " +
			"resource=pods/status for=5s\n\t\t\tat 10s  drain node-0",
		Oracle: SettledOracle,
	},
}
