package deployment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// same compares what a diary says with what it should say.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// running is a simulation in which the Deployment has been rolled out, with an empty diary.
func running(d *appsv1.Deployment) *simulation {
	s := newSimulation(d)
	s.settle().pods(100).pods(100)
	s.forget()
	return s
}

// shorten takes the names off events.
func shorten(events []string) []string {
	var out []string
	for _, e := range events {
		f := strings.Fields(e)
		out = append(out, f[1]+" "+strings.Join(f[len(f)-4:], " "))
	}
	return out
}

func annotationOf(rs *appsv1.ReplicaSet, key string) string {
	return rs.Annotations["deployment.kubernetes.io/"+key]
}

func TestDiaryDEP83NewDeployment(t *testing.T) {
	s := newSimulation(web(3, image("v1")))
	s.settle()
	rs := s.sets()[0]
	same(t, "annotations", rs.Annotations, map[string]string{revisionAnnotation: "1", desiredAnnotation: "3", maximumAnnotation: "4"})
	s.pods(0).pods(1).pods(1).pods(1)
	same(t, "sizes", s.sizes, []string{"3"})
	same(t, "events", shorten(s.world.Events), []string{"up from 0 to 3"})
	same(t, "reasons", s.reasons, []string{created, updated, finished})
	same(t, "revision", s.deployment().Annotations[revisionAnnotation], "1")
	same(t, "generation", s.deployment().Generation, int64(1))
	same(t, "conditions", says(&s.deployment().Status), available+"Progressing=True/NewReplicaSetAvailable")
}

func TestDiaryDEP84TemplateChange(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(image("v2"))
	s.settle()
	for range 5 {
		s.pods(1)
	}
	same(t, "sizes", s.sizes, []string{"3,1", "2,1", "2,2", "1,2", "1,3", "0,3"})
	same(t, "events", shorten(s.world.Events),
		[]string{"up from 0 to 1", "down from 3 to 2", "up from 1 to 2", "down from 2 to 1", "up from 2 to 3", "down from 1 to 0"})
}

func TestDiaryDEP85Proportional(t *testing.T) {
	s := running(web(10, image("v1")))
	s.edit(image("v2"))
	s.settle().pods(0)
	same(t, "half-way", s.was, "8,5")
	s.edit(func(d *appsv1.Deployment) { *d.Spec.Replicas = 15 })
	s.cache.CatchUp()
	if _, _, err := s.look(); err != nil {
		t.Fatal(err)
	}
	same(t, "scaled", s.was, "12,7")
	same(t, "desired", annotationOf(s.sets()[0], "desired-replicas"), "15")
	same(t, "max", annotationOf(s.sets()[1], "max-replicas"), "19")
	for range 20 {
		s.pods(3)
	}
	same(t, "the end", s.was, "0,15")
	same(t, "reason", s.reasons[len(s.reasons)-1], finished)
}

func TestDiaryDEP86StatusesOfTemplateChange(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(image("v2"))
	s.cache.CatchUp()
	s.look()
	s.look()
	status := s.deployment().Status
	same(t, "observed generation", status.ObservedGeneration, s.deployment().Generation)
	same(t, "generation", s.deployment().Generation, int64(2))
	same(t, "updated", status.UpdatedReplicas, 0)
	for range 6 {
		s.pods(1)
		if c := find(s.deployment().Status.Conditions, appsv1.DeploymentAvailable); c.Status != corev1.ConditionTrue {
			t.Errorf("not available: %+v", s.deployment().Status)
		}
	}
	same(t, "reasons", s.reasons, []string{created, updated, finished})
	same(t, "generation at the end", s.deployment().Generation, int64(2))
}

func TestDiaryDEP87Undo(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(image("v2"))
	for range 8 {
		s.settle().pods(1)
	}
	first := s.sets()[0].Name
	s.forget()
	s.edit(image("v1"))
	s.settle()
	rs := s.sets()[0]
	same(t, "revision", annotationOf(rs, "revision"), "3")
	same(t, "history", annotationOf(rs, "revision-history"), "1")
	same(t, "name", rs.Name, first)
	same(t, "number of ReplicaSets", len(s.sets()), 2)
	same(t, "revision of the Deployment", s.deployment().Annotations[revisionAnnotation], "3")
	for range 8 {
		s.pods(1)
	}
	same(t, "sizes", s.sizes, []string{"1,3", "1,2", "2,2", "2,1", "3,1", "3,0"})
	same(t, "reasons", s.reasons, []string{found, updated, finished})
}

func TestDiaryDEP87UndoToPodsThatNeverStart(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(image("v2"))
	s.settle().pods(1).pods(1).pods(1).pods(1)
	s.forget()
	s.edit(image("v1"))
	s.settle().pods(0)
	same(t, "reasons", s.reasons, []string{found, updated})
	_, next, _ := s.look()
	same(t, "looks again", next, 601*time.Second)
	s.world.Sleep(next)
	s.settle()
	same(t, "reasons after the deadline", s.reasons, []string{found, updated, timedOut})
	if n, next, err := s.look(); n != 0 || next != 0 || err != nil {
		t.Errorf("wrote %d, next %v, %v", n, next, err)
	}
	s.pods(1)
	same(t, "DEP-73 it goes on, and recovers", s.reasons, []string{found, updated, timedOut, updated})
}

func TestDiaryDEP88Scaling(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
	var seen []string
	look := func() {
		c := find(s.deployment().Status.Conditions, appsv1.DeploymentAvailable)
		seen = append(seen, string(c.Status))
	}
	s.settle()
	look()
	s.pods(1)
	look()
	s.pods(1)
	look()
	same(t, "available", seen, []string{"False", "True", "True"})
	same(t, "sizes", s.sizes, []string{"5"})
	same(t, "desired", annotationOf(s.sets()[0], "desired-replicas"), "5")
	same(t, "max", annotationOf(s.sets()[0], "max-replicas"), "7")
	same(t, "events", shorten(s.world.Events), []string{"up from 3 to 5"})
	same(t, "reasons", s.reasons, []string{finished})
}

func TestDiaryDEP89PauseAndResume(t *testing.T) {
	s := running(web(5, image("v1")))
	s.edit(image("v2"))
	for range 8 {
		s.settle().pods(2)
	}
	s.forget()
	s.edit(image("v1"))
	for range 8 {
		s.settle().pods(2)
	}
	s.forget()
	s.edit(func(d *appsv1.Deployment) { pausedNow(d); image("v3")(d) })
	s.settle()
	same(t, "reasons", s.reasons, []string{isPaused})
	same(t, "updated", s.deployment().Status.UpdatedReplicas, 0)
	same(t, "number of ReplicaSets", len(s.sets()), 2)
	s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	s.cache.CatchUp()
	s.look()
	same(t, "created", s.was, "5,0,2")
	same(t, "revision", annotationOf(s.sets()[2], "revision"), "4")
	s.look()
	same(t, "the next look", s.was, "4,0,2")
	for range 8 {
		s.settle().pods(2)
	}
	same(t, "the end", s.was, "0,0,5")
	same(t, "reasons at the end", s.reasons[len(s.reasons)-1], finished)
}

func TestDiaryDEP48Recreate(t *testing.T) {
	s := running(web(3, image("v1"), recreate))
	s.edit(image("v2"))
	s.settle()
	same(t, "down first", s.was, "0")
	s.world.ToyReplicaSets(100) // deletes the pods, which terminate
	s.world.ToyStatuses(func(*appsv1.ReplicaSet) bool { return true })
	s.settle()
	same(t, "still terminating", s.was, "0")
	s.pods(0)
	same(t, "gone", s.was, "0,3")
	s.pods(3)
	same(t, "reasons", s.reasons[len(s.reasons)-1], finished)
}

func TestDiaryDEP62History(t *testing.T) {
	s := running(web(1, image("v0"), keeps(2)))
	for _, v := range []string{"v1", "v2", "v3", "v4"} {
		s.edit(image(v))
		s.settle().pods(1).pods(1)
		s.forget()
	}
	s.settle()
	var kept []string
	for _, rs := range s.sets() {
		kept = append(kept, rs.Spec.Template.Spec.Containers[0].Image)
	}
	same(t, "kept", kept, []string{"v2", "v3", "v4"})
}

func TestDiaryDEP25Collision(t *testing.T) {
	d := web(2, image("v1"))
	name, _ := newName(d)
	s := newSimulation(d, plantest.ReplicaSet(name, 0, plantest.Template("web", "other"), func(rs *appsv1.ReplicaSet) { rs.Labels = nil }))
	s.settle()
	same(t, "collisions", *s.deployment().Status.CollisionCount, 1)
	d.Status.CollisionCount = s.deployment().Status.CollisionCount
	other, _ := newName(d)
	same(t, "created under another name", plantest.One[*appsv1.ReplicaSet](s.world, other) != nil, true)
	s.pods(2)
	same(t, "reasons", s.reasons[len(s.reasons)-1], finished)
	same(t, "refused writes", strings.Contains(strings.Join(s.world.Log, " "), "create ReplicaSet "+name+" "), false)
}

func TestDiaryNeedsScaledWithoutSurge(t *testing.T) {
	s := running(web(4, image("v1"), moves("0", "1")))
	s.edit(image("v2"))
	s.settle().pods(0)
	same(t, "half-way", s.was, "3,1")
	s.edit(func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 })
	for range 12 {
		s.settle().pods(1)
	}
	same(t, "does not stick", s.was, "0,3")
}

// TestWriteFloor counts the status writes of a Deployment when its pods are quick: one for each thing that users do.
func TestWriteFloor(t *testing.T) {
	quick := func(s *simulation) {
		for range 20 {
			s.world.Sleep(20 * time.Millisecond)
			s.world.ToyReplicaSets(1)
			s.world.ToyKubelet(1)
			s.world.ToyStatuses(func(*appsv1.ReplicaSet) bool { return true })
			s.cache.CatchUp()
			s.look()
			s.look()
		}
	}
	s := newSimulation(web(2, image("v1")))
	s.debounces = true
	quick(s)
	same(t, "DEP-65 create: status writes", s.statuses(), 1)
	same(t, "DEP-65 create: complete", reasonOf(s.deployment().Status.Conditions), finished)
	s.forget()
	s.edit(image("v2"))
	quick(s)
	same(t, "DEP-65 update: status writes", s.statuses(), 1)
	same(t, "DEP-65 update: complete", s.deployment().Status.UpdatedReplicas, 2)
	same(t, "DEP-65 update: sizes", s.was, "0,2")
	var own []string
	for _, line := range s.world.Log {
		if f := strings.Fields(line); (f[1] == "ReplicaSet" && f[0] != "status") || f[1] == "Deployment" {
			own = append(own, f[0]+" "+f[1])
		}
	}
	same(t, "DEP-84 update: own writes", own,
		[]string{"create ReplicaSet", "change ReplicaSet", "change ReplicaSet", "change ReplicaSet", "status Deployment"})
}

// TestWriteFloorLarge: however slowly or quickly pods become available, a large rollout moves in batches, so that
// scaling costs less than a tenth of what the pods cost.
func TestWriteFloorLarge(t *testing.T) {
	const replicas = 160
	for _, perTick := range []int{2, 5, 30} {
		s := running(web(replicas, image("v1")))
		s.debounces = true
		s.edit(image("v2"))
		ticks := 0
		for ; !s.converged(); ticks++ {
			if ticks > 1000 {
				t.Fatal(s.was, s.deployment().Status)
			}
			s.world.Sleep(20 * time.Millisecond)
			s.world.ToyReplicaSets(20)
			s.world.ToyKubelet(perTick)
			s.world.ToyStatuses(func(*appsv1.ReplicaSet) bool { return true })
			for range 2 {
				s.cache.CatchUp()
				s.look()
			}
		}
		scaled := 0
		for _, line := range s.world.Log {
			if strings.HasPrefix(line, "change ReplicaSet") {
				scaled++
			}
		}
		t.Logf("%d pods a tick: %d scale steps, %d statuses, %d ticks", perTick, scaled, s.statuses(), ticks)
		if most := 2 * replicas / 10; scaled > most {
			t.Errorf("%d pods a tick: scaled %d times, want at most %d", perTick, scaled, most)
		}
	}
}
