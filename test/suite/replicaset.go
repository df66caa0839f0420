package suite

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func replicaSetEntry() Entry {
	return Entry{
		Controller: "replicaset-controller",
		Operations: map[string]workload.Operation{
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

// bare makes or scales a ReplicaSet that no Deployment owns.
func bareSet(u *workload.Users, l script.Line) error {
	n, _ := l.Int("replicas")
	found, err := actors.Edit(u.Server, workload.By, workload.Namespace, l.Arg(0), "", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To(int32(n)) })
	if found || err != nil {
		return err
	}
	image, _ := l.Get("image")
	return createSet(u, l.Arg(0), l.Arg(0), image, n)
}

// createSet makes a ReplicaSet whose pods belong to an app.
func createSet(u *workload.Users, name, app, image string, replicas int) error {
	_, err := u.Server.Do(apiserver.Write{By: workload.By, Verb: apiserver.Create, Object: &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: workload.LabelsOf(app)}, Template: workload.Template(app, image),
		},
	}})
	return err
}

func disturbSet(u *workload.Users, l script.Line) error {
	do, _ := l.Get("do")
	rs, err := workload.Choose(u, l, func(rs *appsv1.ReplicaSet) bool {
		return (do == "restore") == (rs.Labels["app"] == workload.Quarantine)
	})
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		return u.Remove("replicasets", rs.Name, l)
	case "relabel":
		return workload.Relabel(u, rs, workload.Quarantine)
	case "restore":
		return workload.Relabel(u, rs, l.Arg(0))
	case "orphan":
		_, err := actors.Edit(u.Server, workload.By, workload.Namespace, rs.Name, "", func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
		return err
	case "replace": // by one of the same name that nobody owns, so that its Deployment finds the name taken
		if err := u.Remove("replicasets", rs.Name, l); err != nil {
			return err
		}
		return createSet(u, rs.Name, "other", "good:1", 1)
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
		Edits: []Edit{{"pkg/replicas/plan.go",
			"n := min(-missing, burst)", "n := min(1-missing, burst)"}},
		Script: withoutElection + `
			at 1s   create web replicas=5 image=good:1
			at 30s  edit web replicas=3`,
		Oracle: "S2",
	},
	{
		Name: "ready pods are given up first",
		Edits: []Edit{{"pkg/replicas/rank.go",
			"podutil.FalseFirst(a.ready, b.ready),", "podutil.FalseFirst(b.ready, a.ready),"}},
		Script: withoutElection + `
			at 1s   create web replicas=8 image=good:1 surge=0 unavailable=4
			at 30s  node node-1 do=stop
			at 90s  image web good:2`,
		Oracle: "S6",
	},
	{
		Name: "pods that terminate count as available",
		Edits: []Edit{{"pkg/podutil/podutil.go",
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
			"case ref == nil && matches && adoptable(owner, c):", "case ref == nil && matches && adoptable(owner, c) && owner.GetUID() == \"\":"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  set web n=0 do=orphan`,
		Oracle: "L1",
	},
}

var replicaSetScenarios = []Scenario{
	{Name: "scale a ReplicaSet", Play: func(u *User) {
		u.Try("create web", func() error {
			_, err := u.Client.AppsV1().ReplicaSets(u.Namespace).Create(ctx(), newReplicaSet("web", 2), metav1.CreateOptions{})
			return ignoreExists(err)
		})
		u.waitReplicaSets(1)
		for _, n := range []string{"5", "1"} {
			u.Try("scale web", func() error {
				_, err := u.Client.AppsV1().ReplicaSets(u.Namespace).Patch(ctx(), "web", types.MergePatchType,
					[]byte(`{"spec":{"replicas":`+n+`}}`), metav1.PatchOptions{})
				return err
			})
			u.waitReplicaSets(1)
		}
	}},
}

var replicaSetBudgets = []Budget{{
	Name: "create 100 ReplicaSets of 2 replicas", Floor: floor.Writes{Other: 200, Status: 100},
	Do: func(u *User) {
		u.Each(100, func(i int) error {
			_, err := u.Client.AppsV1().ReplicaSets(u.Namespace).Create(ctx(), newReplicaSet(fmt.Sprint("web-", i), 2), metav1.CreateOptions{})
			return err
		})
		u.waitReplicaSets(100)
	},
}}

func newReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	d := Deployment(name, replicas)
	return &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: d.Spec.Selector, Template: d.Spec.Template,
	}}
}

// waitReplicaSets waits until there are so many ReplicaSets, all with their pods.
func (u *User) waitReplicaSets(n int) {
	u.Helper()
	u.Wait("the ReplicaSets have their pods", Patience, func() error {
		list, err := u.Client.AppsV1().ReplicaSets(u.Namespace).List(ctx(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d ReplicaSets of %d", len(list.Items), n)
		}
		for _, set := range list.Items {
			if s := set.Status; s.ObservedGeneration != set.Generation || s.AvailableReplicas != *set.Spec.Replicas || s.Replicas != *set.Spec.Replicas {
				return fmt.Errorf("%s: %+v", set.Name, s)
			}
		}
		return nil
	})
}
