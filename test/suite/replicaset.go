package suite

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func replicaSetEntry() Entry {
	return Entry{
		Controller: "replicaset-controller",
		Needs:      []string{"deployment-controller"},
		Operations: map[string]Operation{
			"set":  disturbSet, // NAME n= do=delete, relabel, restore, orphan, replace: to a ReplicaSet; policy=
			"bare": bareSet,    // NAME replicas= image=: a ReplicaSet without Deployment; again: scales it
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
			g.Add(at, "set %s n=%d do=%s", app, g.IntN(4), workload.Pick(g, "delete", "delete policy=Orphan", "orphan", "replace"))
		}}},
		Scenarios: replicaSetScenarios,
		Malformed: replicasetMalformed,
		Mutants:   replicasetMutants,
		Budgets:   replicaSetBudgets,
	}
}

// bareSet makes a ReplicaSet without Deployment, or scales it.
func bareSet(u *User, l script.Line) error {
	n, _ := l.Int("replicas")
	image, _ := l.Get("image")
	return apply(u, newReplicaSet(l.Arg(0), l.Arg(0), image, 0), func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To(int32(n)) })
}

func disturbSet(u *User, l script.Line) error {
	do, _ := l.Get("do")
	rs, err := choose(u, l, func(rs *appsv1.ReplicaSet) bool { return (do == "restore") == quarantined(rs) })
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		return removeAsToldBy[*appsv1.ReplicaSet](u, rs.Name, l)
	case "relabel":
		return relabel[*appsv1.ReplicaSet](u, rs.Name, quarantine)
	case "restore":
		return relabel[*appsv1.ReplicaSet](u, rs.Name, l.Arg(0))
	case "orphan":
		return edit(u, rs.Name, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
	case "replace": // by one of the same name that nobody owns, so that its Deployment finds the name taken
		if err := removeAsToldBy[*appsv1.ReplicaSet](u, rs.Name, l); err != nil {
			return err
		}
		return create(u, newReplicaSet(rs.Name, "other", "good:1", 1))
	}
	return fmt.Errorf("a ReplicaSet can be deleted, relabelled, restored, orphaned and replaced, not %q", do)
}

var replicasetMalformed = map[string]string{
	"replicasets/no-selector": `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":${META}}`,
	"replicasets/negative": `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"annotations":{"deployment.kubernetes.io/revision":"-1",
			"deployment.kubernetes.io/desired-replicas":"1e9","deployment.kubernetes.io/max-replicas":"-2147483649",
			"deployment.kubernetes.io/revision-history":",,x,"},${META}},
		"spec":{"replicas":-5,"selector":{"matchLabels":{"app":"negative"}},"template":{"metadata":{"labels":{"app":"negative"}}}},
		"status":{"replicas":-2,"observedGeneration":-1}}`,
	"pods/two-controllers": `{"apiVersion":"v1","kind":"Pod","metadata":{"ownerReferences":[
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"no-selector","uid":"replicasets/no-selector","controller":true},
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"negative","uid":"replicasets/negative","controller":true}],"labels":{"app":"negative"},${META}},
		"spec":{"nodeName":"nowhere","containers":[{"name":"web"}]}}`,
	"pods/timeless": `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"absurd"},${META}},"spec":{"nodeName":"nowhere"},
		"status":{"phase":"Finished","podIP":"nonsense","podIPs":[{"ip":""},{"ip":"1.2.3.4.5"}],"startTime":"0001-01-01T00:00:00Z",
			"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"9999-12-31T23:59:59Z"},{"type":"Ready","status":"False"}]}}`,
}

var replicasetMutants = []Mutant{
	{
		Name: "one pod too many is deleted",
		Edits: []Edit{{"internal/workloads/replicas/plan.go",
			"n := min(-missing, burst)", "n := min(1-missing, burst)"}},
		Script: withoutElection + `
			at 1s   create web replicas=5 image=good:1
			at 30s  edit web replicas=3`,
		Oracle: "S2",
	},
	{
		Name: "ready pods are given up first",
		Edits: []Edit{{"internal/workloads/replicas/rank.go",
			"podutil.FalseFirst(a.ready, b.ready),", "podutil.FalseFirst(b.ready, a.ready),"}},
		Script: withoutElection + `
			at 1s   create web replicas=8 image=good:1 surge=0 unavailable=4
			at 30s  node node-1 do=stop
			at 90s  image web good:2`,
		Oracle: "S6",
	},
	{
		Name: "pods that terminate count as available",
		Edits: []Edit{{"internal/workloads/podutil/podutil.go",
			"c.Terminating++\n", "c.Terminating++\n\t\t\tif Available(p, minReadySeconds, now) {\n\t\t\t\tc.Available++\n\t\t\t}\n"}},
		Script: withoutElection + `
			at 1s   create web replicas=6 image=good:1 surge=1 unavailable=0
			at 60s  fault m0 delay pods 1s for=60s
			at 61s  image web good:2`,
		Oracle: "S10",
	},
	{
		Name: "orphans are not adopted",
		Edits: []Edit{{"pkg/plan/claim.go",
			"case ref == nil && matches && adoptable(owner, c):",
			"case ref == nil && matches && adoptable(owner, c) && owner.GetUID() == \"\":"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  set web n=0 do=orphan`,
		Oracle: "L1",
	},
}

var replicaSetScenarios = []Scenario{
	{Name: "scale a ReplicaSet", Play: func(u *User) {
		u.Create(newReplicaSet("web", "web", "web:1", 2))
		u.waitReplicaSets(1)
		for _, n := range []string{"5", "1"} {
			Patch[*appsv1.ReplicaSet](u, "web", `{"spec":{"replicas":`+n+`}}`)
			u.waitReplicaSets(1)
		}
	}},
}

var replicaSetBudgets = []Budget{{
	// at the end up to 24 report progress (decision 3)
	Name: "create 250 ReplicaSets of 2 replicas", Floor: floor.Writes{Other: 500, Status: 250},
	Do: func(u *User) {
		u.Each(250, func(i int) error {
			name := fmt.Sprint("web-", i)
			return create(u, newReplicaSet(name, name, "web:1", 2))
		})
		u.waitReplicaSets(250)
	},
}}

func newReplicaSet(name, app, image string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labelsOf(app)}, Template: Template(app, image),
	}}
}

func (u *User) waitReplicaSets(n int) {
	u.Helper()
	AwaitAll(u, n, func(set *appsv1.ReplicaSet) error {
		s, want := set.Status, *set.Spec.Replicas
		return unless(s.ObservedGeneration == set.Generation && s.AvailableReplicas == want && s.Replicas == want, s)
	})
}
