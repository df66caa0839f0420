package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// TerminatedThreshold is how many terminated pods podgc leaves in scenarios.
const TerminatedThreshold = 5

func podGCEntry() Entry {
	return Entry{
		Controller: "pod-garbage-collector-controller",
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			node := g.Node()
			g.Add(at, "tolerant ends-%s n=%d node=%s", app, 1+g.IntN(5), node)
			if g.IntN(2) == 0 {
				g.Add(soon, "pod ends-%s n=%d do=evict", app, g.IntN(5))
			}
			g.Add(soon+g.Early(), "node %s do=%s", node, workload.Pick(g, "remove", "remove", "stop"))
			g.Add(soon+g.While(), "node %s do=%s", node, workload.Pick(g, "start", "taint"))
		}}},
		Scenarios: []Scenario{
			{Name: "pods have ended", Prepare: (*User).endedPods, Play: func(u *User) {
				AwaitAll(u, TerminatedThreshold, func(*corev1.Pod) error { return nil })
			}},
			{Name: "a node is out of service", Prepare: (*User).podsOutOfService, Play: func(u *User) {
				AwaitAll(u, 1, func(*corev1.Pod) error { return nil }) // the one that does not terminate
			}},
		},
		Malformed: podGCMalformed,
		Mutants:   podgcMutants,
		Budgets:   podGCBudgets,
	}
}

// endedPods makes pods of which some may not stay.
func (u *User) endedPods() {
	u.Helper()
	for i := range TerminatedThreshold + 5 {
		u.bound(fmt.Sprintf("ended-%02d", i), "")
		u.fail(fmt.Sprintf("ended-%02d", i))
		time.Sleep(5 * time.Millisecond)
	}
}

// podsOutOfService makes pods on a node that is out of service. Podgc fails those that terminate before it deletes them, and a manager
// that comes in between counts them among those that have ended (PGC-4): so there are no others.
func (u *User) podsOutOfService() {
	u.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out-" + u.Namespace, Labels: map[string]string{"runs": u.Namespace}}}
	node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: "NoExecute"}}
	u.Create(node)
	u.Cleanup(func() {
		if err := remove[*corev1.Node](u, node.Name); err != nil {
			u.Errorf("clean up: %v", err)
		}
	})
	u.bound("stays", node.Name)
	for _, name := range []string{"stuck-1", "stuck-2"} {
		u.bound(name, node.Name)
		Remove[*corev1.Pod](u, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](300)})
	}
}

// bound makes a pod that nobody plays, on a node, or none.
func (u *User) bound(name, node string) {
	u.Helper()
	p := newPod(name, "web", "web:1")
	p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody"
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // no other controller evicts it
	u.Create(p)
}

func (u *User) fail(name string) {
	u.Helper()
	Patch[*corev1.Pod](u.as("kubelet"), name, `{"status":{"phase":"Failed"}}`, "status")
}

var podgcMutants = []Mutant{
	{
		Name: "podgc does not wait for the grace period",
		Edits: []Edit{{"pkg/controllers/podgc/plan_nodes.go",
			"case now.Sub(since) >= gracePeriod:", "case now.Sub(since) >= 0:"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  node node-0 do=remove
			at 21s  node node-1 do=remove
			at 90s  node node-0 do=start`,
		Oracle: "S12",
	},
	{
		Name: "podgc does not read the node live",
		Edits: []Edit{{"pkg/controllers/podgc/observe.go",
			"case len(read.Objects) == 0:", "case read.Err == nil:"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  node node-0 do=remove
			at 20s  node node-1 do=remove
			at 20s  node node-2 do=remove
			at 21s  fault m0 freeze nodes for=80s
			at 25s  node node-0 do=start
			at 25s  node node-1 do=start
			at 25s  node node-2 do=start`,
		Oracle: "S12",
	},
}

var podGCMalformed = map[string]string{
	"pods/ended-nowhere": `{"apiVersion":"v1","kind":"Pod","metadata":{"deletionGracePeriodSeconds":-1,"finalizers":["",""],${META}},
		"spec":{"nodeName":""},"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget"},{"type":"DisruptionTarget","status":"Perhaps"}]}}`,
}

var podGCBudgets = []Budget{{
	Name: "105 pods have ended, of which 5 may stay", Floor: floor.Writes{Other: 100},
	Flags: []string{fmt.Sprintf("--terminated-pod-gc-threshold=%d", TerminatedThreshold)}, // others count pods that have ended, too
	Prepare: func(u *User) {
		u.Each(100+TerminatedThreshold, func(i int) error {
			u.bound(fmt.Sprintf("ended-%03d", i), "")
			return nil
		})
	},
	Do: func(u *User) {
		u.Each(100+TerminatedThreshold, func(i int) error {
			u.fail(fmt.Sprintf("ended-%03d", i))
			return nil
		})
		AwaitAll(u, TerminatedThreshold, func(*corev1.Pod) error { return nil })
	},
}}
