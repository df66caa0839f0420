package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/podutil"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func replicationControllerEntry() Entry {
	return Entry{
		Controller: "replicationcontroller-controller",
		Operations: map[string]workload.Operation{
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
				Name:   "the status of a ReplicationController is that of another generation",
				Edits:  []Edit{{"pkg/replicas/set.go", "ObservedGeneration:   status.ObservedGeneration,", "ObservedGeneration:   status.ObservedGeneration - 1,"}},
				Script: withoutElection + "\n\t\t\tat 1s   rc old replicas=2 image=good:1",
				Oracle: SettledOracle,
			},
			{
				Name:   "a ReplicationController has a pod too many",
				Edits:  []Edit{{"pkg/replicas/set.go", "Replicas:        o.Spec.Replicas,", "Replicas:        ptr.To(ptr.Deref(o.Spec.Replicas, 0) + 1),"}},
				Script: withoutElection + "\n\t\t\tat 1s   rc old replicas=2 image=good:1",
				Oracle: SettledOracle,
			},
		},
		Budgets: []Budget{{
			Name: "create 100 ReplicationControllers of 2 replicas", Floor: floor.Writes{Other: 200, Status: 100},
			Do: func(u *User) {
				u.Each(100, func(i int) error {
					_, err := u.Client.CoreV1().ReplicationControllers(u.Namespace).Create(ctx(), newReplicationController(fmt.Sprint("old-", i), 2), metav1.CreateOptions{})
					return err
				})
				u.waitReplicationControllers(100)
			},
		}},
	}
}

// replicationController makes, scales or deletes a ReplicationController.
func replicationController(u *workload.Users, l script.Line) error {
	if gone, _ := l.Get("delete"); gone == "true" {
		return u.Remove("replicationcontrollers", l.Arg(0), l)
	}
	n, _ := l.Int("replicas")
	scale := func(rc *corev1.ReplicationController) { rc.Spec.Replicas = ptr.To(int32(n)) }
	found, err := actors.Edit(u.Server, workload.By, workload.Namespace, l.Arg(0), "", scale)
	if found || err != nil {
		return err
	}
	image, _ := l.Get("image")
	template := workload.Template(l.Arg(0), image)
	_, err = u.Server.Do(apiserver.Write{By: workload.By, Verb: apiserver.Create, Object: &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, Name: l.Arg(0)},
		Spec:       corev1.ReplicationControllerSpec{Replicas: ptr.To(int32(n)), Selector: workload.LabelsOf(l.Arg(0)), Template: &template},
	}})
	return err
}

// settledReplicationControllers checks that each has its pods, and says so in its status (RC-10, RC-14).
func settledReplicationControllers(s *apiserver.Server) (wrong []string) {
	for _, rc := range apiserver.All[*corev1.ReplicationController](s) {
		active := int32(0)
		for _, p := range apiserver.All[*corev1.Pod](s) {
			if metav1.IsControlledBy(p, rc) && podutil.Active(p) {
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
		u.Try("create old", func() error {
			_, err := u.Client.CoreV1().ReplicationControllers(u.Namespace).Create(ctx(), newReplicationController("old", 2), metav1.CreateOptions{})
			return ignoreExists(err)
		})
		u.waitReplicationControllers(1)
		for _, n := range []int32{4, 1} {
			u.Try("scale old", func() error {
				rc, err := u.Client.CoreV1().ReplicationControllers(u.Namespace).Get(ctx(), "old", metav1.GetOptions{})
				if err != nil {
					return err
				}
				rc.Spec.Replicas = &n
				_, err = u.Client.CoreV1().ReplicationControllers(u.Namespace).Update(ctx(), rc, metav1.UpdateOptions{})
				return err
			})
			u.waitReplicationControllers(1)
		}
	}},
}

func newReplicationController(name string, replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"app": name}
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rc.Spec.Replicas, rc.Spec.Selector = &replicas, labels
	rc.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	rc.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	return rc
}

// waitReplicationControllers waits until there are so many ReplicationControllers, all with their pods.
func (u *User) waitReplicationControllers(n int) {
	u.Helper()
	u.Wait("the ReplicationControllers have their pods", Patience, func() error {
		list, err := u.Client.CoreV1().ReplicationControllers(u.Namespace).List(ctx(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d ReplicationControllers of %d", len(list.Items), n)
		}
		for _, rc := range list.Items {
			if rc.Status.ObservedGeneration != rc.Generation || rc.Status.AvailableReplicas != *rc.Spec.Replicas || rc.Status.Replicas != *rc.Spec.Replicas {
				return fmt.Errorf("%s: %+v", rc.Name, rc.Status)
			}
		}
		return nil
	})
}
