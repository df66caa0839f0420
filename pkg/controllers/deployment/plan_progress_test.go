package deployment

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// progressing shows the condition Progressing of the simulated Deployment.
func (s *simulation) progressing() string {
	c := find(s.deployment().Status.Conditions, appsv1.DeploymentProgressing)
	return fmt.Sprintf("%s %s since %v", c.Reason, c.Message, s.sinceOpening(c.LastUpdateTime.Time))
}

// sinceOpening is a time in whole seconds, as conditions have them, since its diary was empty.
func (s *simulation) sinceOpening(at time.Time) time.Duration {
	return at.Truncate(time.Second).Sub(s.opened)
}

// opened is a simulation in which the Deployment has been rolled out, at the beginning of a second, that holds reports back.
func opened(d *appsv1.Deployment) *simulation {
	s := running(d)
	s.world.Sleep(time.Second - s.world.Now().Sub(s.world.Now().Truncate(time.Second)))
	s.opened, s.debounces = s.world.Now(), true
	return s
}

// after lets time pass, and then the ReplicaSets have their pods, of which as many become ready.
func (s *simulation) after(d time.Duration, ready int) *simulation {
	s.world.Sleep(d)
	return s.pods(ready)
}

func hashName(d *appsv1.Deployment) string {
	name, _ := newName(d)
	return name
}

func TestDiaryDEP72StuckHalfWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []edit
		ready int // how many of the new pods become ready
		want  string
	}{
		{"none gets ready", nil, 0, "since 3s"},
		{"the first get ready, later ones do not", nil, 2, "since 3s"},
		{"Recreate", []edit{recreate}, 0, "since 3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := opened(web(5, append(c.edits, image("v1"))...))
			s.edit(image("v2"))
			s.settle()
			s.after(3*time.Second+200*time.Millisecond, c.ready)
			for range 4 {
				s.pods(0)
			}
			for range 3 {
				s.world.Sleep(20 * time.Second)
				s.settle()
			}
			name := hashName(s.deployment())
			same(t, "Progressing", s.progressing(), fmt.Sprintf("%s ReplicaSet %q is progressing. %s", updated, name, c.want))
			_, next, _ := s.look()
			s.world.Sleep(next - 2*time.Second)
			s.settle()
			same(t, "before the deadline", reasonOf(s.deployment().Status.Conditions), updated)
			s.world.Sleep(2 * time.Second)
			s.settle()
			same(t, "after it", reasonOf(s.deployment().Status.Conditions), timedOut)
			same(t, "the deadline, after the last progress", s.sinceOpening(s.world.Now()), 604*time.Second)
		})
	}
}

func TestDiaryDEP72ReportsHeldBack(t *testing.T) {
	s := opened(web(4, image("v1"), moves("2", "0")))
	s.edit(image("v2"))
	s.settle()
	name := hashName(s.deployment())
	s.world.Sleep(10 * time.Second)
	s.settle()
	same(t, "created", s.progressing(), fmt.Sprintf("%s Created new replica set %q since 0s", created, name))
	s.after(0, 0)
	s.after(5*time.Second, 1)
	s.world.Sleep(10 * time.Second)
	s.settle()
	same(t, "progress, as of when it was seen", s.progressing(), fmt.Sprintf("%s ReplicaSet %q is progressing. since 15s", updated, name))
	for range 6 {
		s.after(0, 4)
	}
	at := s.sinceOpening(s.world.Now())
	s.world.Sleep(7 * time.Second)
	s.settle()
	same(t, "complete, likewise", s.progressing(),
		fmt.Sprintf("%s ReplicaSet %q has successfully progressed. since %v", finished, name, at))
}

// lose lets somebody make the Deployment's ReplicaSet a foreign one, which keeps the name.
func (s *simulation) lose() {
	plantest.Edit(s.world, s.sets()[0].Name, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences, rs.Labels = nil, nil })
}

func TestDiaryDEP25LostToAForeignOne(t *testing.T) {
	s := running(web(3, image("v1")))
	lost := s.sets()[0].Name
	s.lose()
	s.settle()
	made := hashName(s.deployment())
	same(t, "made under another name", made != lost && plantest.One[*appsv1.ReplicaSet](s.world, made) != nil, true)
	s.pods(0)
	c := find(s.deployment().Status.Conditions, appsv1.DeploymentProgressing)
	same(t, "message", c.Message, fmt.Sprintf("ReplicaSet %q is progressing.", made))
	s.pods(3)
	c = find(s.deployment().Status.Conditions, appsv1.DeploymentProgressing)
	same(t, "message at the end", c.Message, fmt.Sprintf("ReplicaSet %q has successfully progressed.", made))
	same(t, "reasons", s.reasons, []string{finished, created, updated, finished})
}

// A ReplicaSet that somebody deletes is made again, under the same name: a rollout like any other.
func TestDiaryDEP27MadeAgain(t *testing.T) {
	s := running(web(3, image("v1")))
	rs := s.sets()[0]
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		s.world.Remove(p)
	}
	s.world.Remove(rs)
	s.settle()
	same(t, "the same name", s.sets()[0].Name, rs.Name)
	s.pods(0)
	same(t, "reasons", s.reasons, []string{finished, created, updated})
	_, next, _ := s.look()
	s.world.Sleep(next)
	s.settle()
	same(t, "it times out", reasonOf(s.deployment().Status.Conditions), timedOut)
}

func TestDiaryDEP55UndoneWhilePaused(t *testing.T) {
	s := running(web(3, image("v1")))
	s.edit(image("v2"))
	s.settle().pods(0)
	s.edit(pausedNow)
	s.settle()
	s.world.Sleep(time.Minute)
	s.edit(image("v1"))
	s.settle()
	s.world.Sleep(time.Minute)
	s.forget()
	s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	s.cache.CatchUp()
	s.look()
	same(t, "reasons", s.reasons, []string{isResumed})
	c := find(s.deployment().Status.Conditions, appsv1.DeploymentProgressing)
	same(t, "DEP-56 the deadline begins when it is resumed", c.LastUpdateTime.Time.Equal(s.world.Now()), true)
}

func TestLastSeen(t *testing.T) {
	minute := now.Add(time.Minute)
	see := func(l lastSeen, at time.Time, s snapshot) lastSeen { return l.renewed(sortOut(at, s)) }
	old := rs{image: "v1", size: 3, ready: 3}
	first := see(lastSeen{}, now, snapshotWith(web(3), old))
	for _, c := range []struct {
		name        string
		before      lastSeen
		scene       snapshot
		progressed  bool
		began, pods bool
	}{
		{"the first look knows of nothing before", lastSeen{}, snapshotWith(web(3), old, rs{image: "v2", size: 1, ready: 1}), false, false,
			false},
		{"nothing has changed", first, snapshotWith(web(3), old), false, false, false},
		{"DEP-69 there is a new ReplicaSet", first, snapshotWith(web(3), old, rs{image: "v2", size: 1}), true, true, false},
		{"DEP-69 there is one that has pods", first, snapshotWith(web(3), old, rs{image: "v2", size: 1, pending: 1}), true, true, true},
		{"DEP-72b a pod goes", first, snapshotWith(web(3), rs{image: "v1", size: 2, ready: 2}), true, false, false},
		{"DEP-72b a pod fails", first, snapshotWith(web(3), rs{image: "v1", size: 3, ready: 2, pending: 1}), false, false, false},
		{"another Deployment of the name", first, snapshotWith(web(3, func(d *appsv1.Deployment) { d.UID = "uid-web-2" })), false, false,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := see(c.before, minute, c.scene)
			if got.Progressed.Equal(minute) != c.progressed || got.Began.Equal(minute) != c.began || (got.Had > 0) != c.pods {
				t.Errorf("got %+v", got)
			}
			again := see(got, minute.Add(time.Minute), c.scene)
			if again.Progressed != got.Progressed || again.Began != got.Began {
				t.Errorf("the next look: %+v", again)
			}
		})
	}
}

// What was seen of the past never makes progress older than what the status tells of.
func TestSeenAt(t *testing.T) {
	hour := now.Add(-time.Hour)
	for _, c := range []struct {
		name     string
		d        *appsv1.Deployment
		new      string // the new ReplicaSet that was seen
		at, want time.Time
	}{
		{"DEP-72b seen a moment ago", web(3, knows(updated, hour, "2", 4, 1, 2, 2)), "uid-web-v2", now.Add(-9 * time.Second),
			now.Add(-9 * time.Second)},
		{"DEP-72b nothing was seen", web(3, knows(updated, hour, "2", 4, 1, 2, 2)), "uid-web-v2", time.Time{}, now},
		{"DEP-72b seen in the second that is told", web(3, knows(updated, hour, "2", 4, 1, 2, 2)), "uid-web-v2",
			hour.Add(999 * time.Millisecond), hour.Add(999 * time.Millisecond)},
		{"DEP-72b older than what is told", web(3, knows(updated, hour, "2", 4, 1, 2, 2)), "uid-web-v2", hour.Add(-time.Millisecond), now},
		{"DEP-27 the ReplicaSet was created in this look", web(3, knows(finished, hour, "1", 3, 3, 3, 3)), "uid-web-v1",
			now.Add(-time.Minute), now},
		{"DEP-56 resumed", web(3, knows(isPaused, hour, "2", 4, 1, 2, 2)), "uid-web-v2", now.Add(-time.Minute), now},
		{"DEP-27 the first rollout", web(3), "uid-web-v2", now.Add(-2 * time.Second), now.Add(-2 * time.Second)},
		{"DEP-70 a deadline where there was none", web(3, knows("", hour, "2", 4, 1, 2, 2)), "uid-web-v2", hour, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotWith(c.d, rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, pending: 1})
			s.Seen = lastSeen{UID: c.d.UID}
			for _, rs := range s.ReplicaSets {
				if string(rs.UID) == c.new {
					s.Seen.New = rs.UID
				}
			}
			if got := sortOut(now, s).seenAt(c.at); s.Seen.New == "" || !got.Equal(c.want) {
				t.Errorf("got %v, want %v", metav1.NewTime(got), c.want)
			}
		})
	}
}
