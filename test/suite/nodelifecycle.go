package suite

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func nodeLifecycleEntry() Entry {
	return Entry{
		Controller: "node-lifecycle-controller",
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
			node := g.Node()
			g.Add(at, "node %s do=stop", node)
			if g.IntN(2) == 0 {
				g.Add(at, "fault %s freeze leases for=%ds", workload.Pick(g, "m0", "m*"), 10+g.IntN(60))
			}
			g.Add(soon+30*time.Second, "node %s do=start", node) // at times after it was declared Unknown
		}}, {Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			// nodes that nobody repairs when the script ends
			if g.IntN(2) == 0 {
				g.Add(at, "crowd nodes=%d", 1+g.IntN(5)) // of which nobody is to make use
			}
			g.Add(at, "node spare-%s do=start", app)
			g.Add(at, "node spare-%s do=cordon", app) // pods that come there would never end
			g.Add(at, "tolerant on-spare-%s n=2 node=spare-%s", app, app)
			g.Add(soon+5*time.Second, "node spare-%s do=stop", app)
			if g.IntN(3) == 0 {
				g.Add(soon+g.While(), "node spare-%s do=%s", app, workload.Pick(g, "start", "remove"))
			}
			g.Add(soon+time.Minute, "wait")
		}}},
		Settled:   nodesSettled,
		Scenarios: []Scenario{{Name: "taints follow conditions", Play: (*User).taintsFollowConditions}},
		Malformed: map[string]string{
			"minions/absurd-conditions": `{"apiVersion":"v1","kind":"Node","metadata":${META},"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Perhaps"},{"type":"","status":""},{"type":"Ready","status":"Unknown"}]}}`,
		},
		Mutants: nodeLifecycleMutants,
		Budgets: []Budget{{
			Name: "10 nodes are not ready", Floor: floor.Writes{Other: 10},
			Prepare: func(u *User) {
				for i := range 10 {
					u.nodeOfNobody(720 + i)
				}
			},
			Do: func(u *User) {
				for i := range 10 {
					since := time.Now().UTC().Format(time.RFC3339)
					Patch[*corev1.Node](u.as("kubelet"), u.nodeName(720+i),
						`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"`+since+`"}]}}`, "status")
				}
				for i := range 10 {
					Await(u, u.nodeName(720+i), func(n *corev1.Node) error {
						return unless(len(keysOf(n, corev1.TaintEffectNoSchedule)) == 1, n.Spec.Taints)
					})
				}
				for i := range 10 { // before they are Unknown, as they have no Leases
					u.removeNode(u.nodeName(720 + i))
				}
			},
		}},
	}
}

func (u *User) taintsFollowConditions() {
	name := u.nodeOfNobody(710)
	for _, step := range []struct {
		status string
		want   []string
	}{
		{`{"conditions":[{"type":"Ready","status":"False"}]}`, []string{corev1.TaintNodeNotReady}},
		{`{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"True"}]}`,
			[]string{corev1.TaintNodeDiskPressure}},
		{`{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"}]}`, nil},
	} {
		Patch[*corev1.Node](u.as("kubelet"), name, `{"status":`+step.status+`}`, "status")
		renewed := time.Now()
		Await(u, name, func(n *corev1.Node) error {
			if time.Since(renewed) > 10*time.Second { // it takes longer than a Lease while writes are refused
				renewed = time.Now()
				u.renewLease(name)
			}
			return unless(slices.Equal(keysOf(n, corev1.TaintEffectNoSchedule), step.want), n.Spec.Taints)
		})
	}
}

// nodeOfNobody creates a node that no kubelet works on, and that no pod comes to but those that name it: somebody holds its Lease,
// which is as good as new.
func (u *User) nodeOfNobody(i int) string {
	u.Helper()
	n := u.newNode(i)
	n.Annotations = nil
	delete(n.Labels, "beta.kubernetes.io/os") // the controller sets it (NL-25)
	now := metav1.NowMicro()
	leases := u.in(corev1.NamespaceNodeLease)
	leases.Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](1 << 30), RenewTime: &now,
	}})
	u.Create(n)
	u.Cleanup(func() {
		u.removeNode(n.Name)
		Remove[*coordinationv1.Lease](leases, n.Name)
	})
	return n.Name
}

// renewLease renews the Lease of a node of nobody.
func (u *User) renewLease(node string) {
	u.Helper()
	Patch[*coordinationv1.Lease](u.in(corev1.NamespaceNodeLease), node,
		`{"spec":{"renewTime":"`+time.Now().UTC().Format(metav1.RFC3339Micro)+`"}}`)
}

func (u *User) removeNode(name string) {
	u.Helper()
	u.Try("remove the node", func() error { return ignoreNotFound(remove[*corev1.Node](u, name)) })
}

// keysOf are the keys of the taints of a node with an effect, without those that others have set.
func keysOf(n *corev1.Node, effect corev1.TaintEffect) (keys []string) {
	for _, t := range n.Spec.Taints {
		if t.Effect == effect && t.Key != "runs" {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// nodesSettled checks that silent nodes are Unknown, that taints go with conditions, and that no pod of an Unknown node is ready.
func nodesSettled(v *View) (wrong []string) {
	renewed := map[string]time.Time{}
	for _, l := range all[*coordinationv1.Lease](v) {
		if l.Namespace == corev1.NamespaceNodeLease && l.Spec.RenewTime != nil {
			renewed[l.Name] = l.Spec.RenewTime.Time
		}
	}
	unknown := map[string]bool{}
	for _, n := range subjects[*corev1.Node](v) {
		status := corev1.ConditionStatus("")
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				status = c.Status
			}
		}
		unknown[n.Name] = status == corev1.ConditionUnknown
		if last := renewed[n.Name]; !last.IsZero() && time.Since(last) > 70*time.Second && status == corev1.ConditionTrue {
			wrong = append(wrong, fmt.Sprintf("the node %s is ready, and its Lease was renewed %v ago", n.Name, time.Since(last)))
		}
		for key, want := range map[string]bool{
			corev1.TaintNodeUnreachable: status == corev1.ConditionUnknown, corev1.TaintNodeNotReady: status == corev1.ConditionFalse,
			corev1.TaintNodeUnschedulable: n.Spec.Unschedulable,
		} {
			if got := slices.Contains(keysOf(n, corev1.TaintEffectNoSchedule), key); got != want && (status != "" || got) {
				wrong = append(wrong, fmt.Sprintf("the node %s, which is %q, has the taints %v", n.Name, status, n.Spec.Taints))
			}
		}
		if status == corev1.ConditionTrue {
			for _, key := range keysOf(n, corev1.TaintEffectNoExecute) {
				if key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable {
					wrong = append(wrong, fmt.Sprintf("the node %s is ready, and has the taint %s", n.Name, key))
				}
			}
		}
	}
	for _, p := range all[*corev1.Pod](v) {
		if unknown[p.Spec.NodeName] && ready(p) {
			wrong = append(wrong, fmt.Sprintf("%s/%s is ready on %s, which is Unknown", p.Namespace, p.Name, p.Spec.NodeName))
		}
	}
	return wrong
}

const (
	nodeLifecycleFolder = "pkg/controllers/nodelifecycle/"
	// which is not repaired at the end
	anotherStops = withoutElection +
		"\n\t\t\tat 1s   node node-9 do=start\n\t\t\tat 5s   daemon ds image=good:1\n\t\t\tat 20s  node node-9 do=stop\n\t\t\tat 100s " +
		"crowd nodes=0"
	aNodeStops = withoutElection +
		"\n\t\t\tat 1s   create web replicas=4 image=good:1\n\t\t\tat 20s  node node-0 do=stop\n\t\t\tat 100s crowd nodes=0"
)

var nodeLifecycleMutants = []Mutant{
	{
		Name:   "Leases are not read live",
		Edits:  []Edit{{nodeLifecycleFolder + "plan.go", "case !w.Memory.Proved:", "case w.Node == nil:"}},
		Script: withoutElection + "\n\t\t\tat 20s  fault m0 freeze leases for=60s",
		Oracle: "S28",
	},
	{
		Name:   "half the grace period is enough",
		Edits:  []Edit{{nodeLifecycleFolder + "plan.go", "return silent, grace - silent", "return silent, grace/2 - silent"}},
		Script: aNodeStops,
		Oracle: "S28",
	},
	{
		Name:   "pods of nodes that are Unknown stay ready",
		Edits:  []Edit{{nodeLifecycleFolder + "plan.go", "case len(marks) > 0:", "case len(marks) < 0:"}},
		Script: anotherStops,
		Oracle: SettledOracle,
	},
	{
		Name:   "nodes that are Unknown get no taint",
		Edits:  []Edit{{nodeLifecycleFolder + "plan_taints.go", "keys = append(keys, corev1.TaintNodeUnreachable)", "_ = c.Type"}},
		Script: anotherStops,
		Oracle: SettledOracle,
	},
	{
		Name: "nodes that are ready again keep their taint",
		Edits: []Edit{{nodeLifecycleFolder + "plan_taints.go", "return none, 0, \"\"\n\tcase !s.Zone.Known:",
			"return taints, 0, \"\"\n\tcase !s.Zone.Known:"}},
		Script: aNodeStops + "\n\t\t\tat 120s node node-0 do=start",
		Oracle: SettledOracle,
	},
	{
		Name:   "nodes that cannot be scheduled get no taint",
		Edits:  []Edit{{nodeLifecycleFolder + "plan_taints.go", "if n.Spec.Unschedulable {", "if n.Spec.Unschedulable && len(keys) > 0 {"}},
		Script: withoutElection + "\n\t\t\tat 10s  crowd nodes=3",
		Oracle: SettledOracle,
	},
}
