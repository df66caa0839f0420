package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func replicationControllerEntry() Entry {
	return Entry{
		Controller: "replicationcontroller-controller",
		Operations: map[string]Operation{
			"rc": replicationController, // NAME replicas= image=; again: scales it; delete=true policy=
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(4) == 0 {
				g.Add(g.Early(), "rc rc-%s replicas=%d image=good:1", app, g.IntN(5))
			}
		},
		Choices: []workload.Choice{
			{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "rc rc-%s replicas=%d image=good:%d", app, g.IntN(6), g.IntN(2))
				g.Add(soon, "pod rc-%s n=%d do=%s", app, g.IntN(6), workload.Pick(g, "delete", "evict"))
			}},
			{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "rc rc-%s delete=true policy=%s", app, workload.Pick(g, "Background", "Orphan"))
				g.Add(soon, "rc rc-%s replicas=%d image=good:1", app, g.IntN(4))
			}},
		},
		Settled:   settledReplicationControllers,
		Scenarios: replicationControllerScenarios,
		Malformed: map[string]string{
			"controllers/empty": `{"apiVersion":"v1","kind":"ReplicationController","metadata":${META}}`,
			"controllers/absurd": `{"apiVersion":"v1","kind":"ReplicationController","metadata":${META},
				"spec":{"replicas":-4,"minReadySeconds":-1,"selector":{"":"x","app":"absurd"},"template":{"metadata":{"labels":{"app":"other"}}}},
				"status":{"replicas":-2,"observedGeneration":-1,"conditions":[{"type":"ReplicaFailure"},{"type":"ReplicaFailure","status":"Perhaps"}]}}`,
		},
		Mutants: []Mutant{
			{
				Name: "the status of a ReplicationController is that of another generation",
				Edits: []Edit{{"internal/workloads/replicas/set.go", "ObservedGeneration:   status.ObservedGeneration,",
					"ObservedGeneration:   status.ObservedGeneration - 1,"}},
				Script: withoutElection + "\n\t\t\tat 1s   rc old replicas=2 image=good:1",
				Oracle: SettledOracle,
			},
			{
				Name: "a ReplicationController has a pod too many",
				Edits: []Edit{{"internal/workloads/replicas/set.go", "Replicas:        o.Spec.Replicas,",
					"Replicas:        ptr.To(ptr.Deref(o.Spec.Replicas, 0) + 1),"}},
				Script: withoutElection + "\n\t\t\tat 1s   rc old replicas=2 image=good:1",
				Oracle: SettledOracle,
			},
		},
		Budgets: []Budget{{
			Name: "create 250 ReplicationControllers of 2 replicas", Floor: floor.Writes{Other: 500, Status: 250}, // as for ReplicaSets
			Do: func(u *User) {
				u.Each(250, func(i int) error { return create(u, newReplicationController(fmt.Sprint("old-", i), "web:1", 2)) })
				u.waitReplicationControllers(250)
			},
		}},
	}
}

func replicationController(u *User, l script.Line) error {
	if says(l, "delete") {
		return removeAsToldBy[*corev1.ReplicationController](u, l.Arg(0), l)
	}
	n, _ := l.Int("replicas")
	image, _ := l.Get("image")
	return apply(u, newReplicationController(l.Arg(0), image, 0),
		func(rc *corev1.ReplicationController) { rc.Spec.Replicas = ptr.To(int32(n)) })
}

// settledReplicationControllers checks that each has its pods, and says so in its status (RC-10, RC-14).
func settledReplicationControllers(s *View) (wrong []string) {
	for _, rc := range subjects[*corev1.ReplicationController](s) {
		active := int32(0)
		for _, p := range all[*corev1.Pod](s) {
			if metav1.IsControlledBy(p, rc) && living(p) && !ended(p) {
				active++
			}
		}
		if rc.DeletionTimestamp != nil {
			continue
		}
		if want := *rc.Spec.Replicas; active != want || rc.Status.Replicas != want || rc.Status.ObservedGeneration != rc.Generation {
			wrong = append(wrong, fmt.Sprintf("ReplicationController %s, generation %d, has %d pods of %d, and says %d at generation %d",
				rc.Name, rc.Generation, active, want, rc.Status.Replicas, rc.Status.ObservedGeneration))
		}
	}
	return wrong
}

var replicationControllerScenarios = []Scenario{
	{Name: "scale a ReplicationController", Play: func(u *User) {
		u.Create(newReplicationController("old", "web:1", 2))
		u.waitReplicationControllers(1)
		for _, n := range []string{"4", "1"} {
			Patch[*corev1.ReplicationController](u, "old", `{"spec":{"replicas":`+n+`}}`)
			u.waitReplicationControllers(1)
		}
	}},
}

func newReplicationController(name, image string, replicas int32) *corev1.ReplicationController {
	template := Template(name, image)
	return &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ReplicationControllerSpec{
		Replicas: &replicas, Selector: labelsOf(name), Template: &template,
	}}
}

func (u *User) waitReplicationControllers(n int) {
	u.Helper()
	AwaitAll(u, n, func(rc *corev1.ReplicationController) error {
		s, want := rc.Status, *rc.Spec.Replicas
		return unless(s.ObservedGeneration == rc.Generation && s.AvailableReplicas == want && s.Replicas == want, s)
	})
}
