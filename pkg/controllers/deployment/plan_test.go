package deployment

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func up(name, from, to string) string   { return scaled("up", name, from, to) }
func down(name, from, to string) string { return scaled("down", name, from, to) }

func scaled(verb, name, from, to string) string {
	return " [Normal ScalingReplicaSet: Scaled " + verb + " replica set " + name + " from " + from + " to " + to + "]"
}

func TestOrder(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	stranger := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "uid-other" }
	unlabelled := func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": "debug"} }
	check(t, []row{
		{"DEP-4.2 an empty selector stops everything",
			snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} })), nil, "selects all"},
		{"DEP-4.2 no selector stops everything", snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.Selector = nil })), nil,
			"no selector"},
		{"DEP-4.2 a broken selector stops everything", snapshotWith(web(3, func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}
		})), nil, "selector:"},
		{"DEP-4.4 deletion goes before pause", snapshotWith(web(3, deletedNow, pausedNow), rs{image: "v2", size: 1}), nil, "being deleted"},
		{"DEP-4.6 pause goes before rollback", snapshotWith(web(3, pausedNow, rollbackNote("1")), rs{image: "v2", size: 3, ready: 3}), nil,
			"paused"},
		{"DEP-4.7 rollback goes before scaling",
			snapshotWith(web(3, rollbackNote("7")), rs{image: "v2", size: 2, ready: 2, edit: annotated(desiredAnnotation, "2")}),
			[]string{"web: -deprecated.deployment.rollback.to [Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to " +
				"rollback to.]"}, ""},
		{"DEP-4.8 scaling goes before the rollout",
			snapshotWith(web(5), rs{image: "v1", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}),
			[]string{"web-v1: 3 -> 5 desired-replicas=5" + up("web-v1", "3", "5")}, ""},
		{"DEP-4.9 an unknown strategy rolls nothing out",
			snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Canary" })), nil, `unknown strategy "Canary"`},
		{"DEP-7 an orphan that matches is adopted, the rest waits", snapshotWith(web(3), rs{image: "v2", size: 2, edit: orphan}),
			[]string{"web-v2: adopt"}, "adopts"},
		{"DEP-7 one that matches no more is released, and the rest goes on",
			snapshotWith(web(3), rs{image: "v1", size: 1, edit: unlabelled}, rs{image: "v2", size: 2, ready: 2}),
			[]string{"web-v1: release", "web-v2: 2 -> 3" + up("web-v2", "2", "3")}, ""},
		{"DEP-9 another's ReplicaSet is not touched", snapshotWith(web(1), rs{image: "v2", size: 2, edit: stranger}),
			[]string{"create size 1 revision 1 desired 1 max 2" + up("NEW", "0", "1")}, ""},
		{"DEP-61 nothing is claimed for a Deployment that is being deleted",
			snapshotWith(web(3, deletedNow), rs{image: "v1", edit: orphan}, rs{image: "v2", edit: unlabelled}), nil, ""},
	})
	t.Run("DEP-8 adoption asks for a live look at the owner", func(t *testing.T) {
		p := rolledOut(now, snapshotWith(web(3), rs{image: "v2", edit: orphan}))
		if c := p.Steps[0].(plan.Each).Sequences[0][0].(plan.Change); !c.Adopt || !metav1.IsControlledBy(c.New, web(3)) {
			t.Errorf("got %+v", c)
		}
	})
}

func TestKeepUp(t *testing.T) {
	full := func(edits ...func(*appsv1.ReplicaSet)) rs {
		return rs{image: "v2", size: 3, ready: 3, edit: all(edits...)}
	}
	old := func(revision string) rs { return rs{image: "v1", edit: annotated(revisionAnnotation, revision)} }
	check(t, []row{
		{"DEP-10 the oldest of several with the present template is the new one",
			snapshotWith(web(3), rs{image: "v2", size: 2, ready: 2, edit: annotated(revisionAnnotation, "2")},
				rs{image: "v2b", size: 1, ready: 1, edit: func(rs *appsv1.ReplicaSet) {
					rs.Spec.Template.Spec.Containers[0].Image = "v2"
					rs.Annotations[revisionAnnotation] = "1"
				}}),
			[]string{"web-v2: 2 -> 3" + up("web-v2", "2", "3")}, ""},
		{"DEP-11 a missing revision counts as 0",
			snapshotWith(web(3), rs{image: "v1", edit: bare(revisionAnnotation)}, full(annotated(revisionAnnotation, "1"))), nil, ""},
		{"DEP-11 a revision that is no number is skipped", snapshotWith(web(3), old("many"), full(annotated(revisionAnnotation, "1"))), nil,
			""},
		{"DEP-12 the new one is raised above all old ones", snapshotWith(web(3), old("7"), full()),
			[]string{"web-v2: revision=8 revision-history=2"}, "revision 8"},
		{"DEP-12 it never goes down", snapshotWith(web(3), old("1"), full(annotated(revisionAnnotation, "9"))), nil, ""},
		{"DEP-12 the highest revision there is stays", snapshotWith(web(3), old("9223372036854775807"), full()),
			[]string{"web-v2: revision=9223372036854775807 revision-history=2"}, ""},
		{"DEP-13 a former revision is remembered", snapshotWith(web(3), old("7"), full(annotated(historyAnnotation, "1,3"))),
			[]string{"web-v2: revision=8 revision-history=1,3,2"}, ""},
		{"DEP-13 without a former revision there is nothing to remember", snapshotWith(web(3), old("7"), full(bare(revisionAnnotation))),
			[]string{"web-v2: revision=8"}, ""},
		{"DEP-16 a revision that is no number is replaced, not remembered",
			snapshotWith(web(3), old("7"), full(annotated(revisionAnnotation, "x"))),
			[]string{"web-v2: revision=8"}, ""},
		{"DEP-14 annotations are handed down, but for the private ones",
			snapshotWith(web(3, note("kubernetes.io/change-cause", "new image"), note(corev1.LastAppliedConfigAnnotation, "{}"),
				note(revisionAnnotation, "5"),
				note(historyAnnotation, "1"), note(desiredAnnotation, "9"), note(maximumAnnotation, "9"), note(rollbackAnnotation, "x")),
				full(annotated("mine", "stays"), annotated("kubernetes.io/change-cause", "old image"))),
			[]string{"web-v2: change-cause=new image"}, ""},
		{"DEP-15 minReadySeconds follows", snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 }), full()),
			[]string{"web-v2: minReadySeconds 5"}, ""},
		{"DEP-16 upkeep and size are one write", snapshotWith(web(3), old("7"), rs{image: "v2", size: 2, ready: 2}),
			[]string{"web-v2: 2 -> 3 revision=8 revision-history=2" + up("web-v2", "2", "3")}, ""},
		{"DEP-18 old ones are left alone", snapshotWith(web(3, note("team", "shop")), rs{image: "v1"}, full(annotated("team", "shop"))),
			nil, ""},
		{"DEP-58 upkeep while paused", snapshotWith(web(3, pausedNow), old("7"), full()), []string{"web-v2: revision=8 revision-history=2"},
			""},
		{"DEP-58 upkeep while deleting", snapshotWith(web(3, deletedNow), old("7"), full()),
			[]string{"web-v2: revision=8 revision-history=2"}, ""},
	})
}

func TestRemember(t *testing.T) {
	long := strings.Repeat("1234567,", 249) + "12345" // 1997
	for _, c := range []struct{ name, history, want string }{
		{"DEP-13 the first", "", "42"},
		{"DEP-13 the oldest comes first", "1,5", "1,5,42"},
		{"DEP-13 as long as may be", long, long + ",42"},
		{"DEP-13 what is too long loses its oldest entries", long + "6", long[len("1234567,"):] + "6,42"},
		{"DEP-13 garbage that is too long goes", strings.Repeat("x", 3000), "42"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := remember(c.history, 42); got != c.want || len(got) > longestHistory {
				t.Errorf("got %d characters: %s", len(got), got)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	check(t, []row{
		{"DEP-20 the first ReplicaSet", snapshotWith(web(3)), []string{"create size 3 revision 1 desired 3 max 4" + up("NEW", "0", "3")},
			"create"},
		{"DEP-21 RollingUpdate begins with the surge", snapshotWith(web(10), rs{image: "v1", size: 10, ready: 10}),
			[]string{"create size 3 revision 2 desired 10 max 13" + up("NEW", "0", "3")}, ""},
		{"DEP-21 without room it begins with none", snapshotWith(web(4, moves("0", "1")), rs{image: "v1", size: 4, ready: 4}),
			[]string{"create size 0 revision 2 desired 4 max 4"}, ""},
		{"DEP-21 Recreate begins with all", snapshotWith(web(4, recreate), rs{image: "v1"}),
			[]string{"create size 4 revision 2 desired 4 max 4" + up("NEW", "0", "4")}, ""},
		{"DEP-27 no event for none", snapshotWith(web(0)), []string{"create size 0 revision 1 desired 0 max 0"}, ""},
		{"DEP-28 not while paused", snapshotWith(web(3, pausedNow)), nil, ""},
		{"DEP-28 not while scaling", snapshotWith(web(3), rs{image: "v1", size: 2, edit: annotated(desiredAnnotation, "2")}),
			[]string{"web-v1: 2 -> 3 desired-replicas=3" + up("web-v1", "2", "3")}, ""},
		{"DEP-28 not while deleting", snapshotWith(web(3, deletedNow)), nil, ""},
	})
	t.Run("DEP-19, DEP-20, DEP-78 the whole of it", func(t *testing.T) {
		d := web(3, image("nginx:1.27"), note("kubernetes.io/change-cause", "first"), note(rollbackAnnotation, "x"),
			func(d *appsv1.Deployment) {
				d.Labels = map[string]string{"owner": "me"}
				d.Spec.MinReadySeconds = 7
			})
		step := rolledOut(now, snapshotWith(d)).Steps[0].(plan.Create)
		labels := map[string]string{"app": "web", "pod-template-hash": "74f8f75d46"}
		template := plantest.Template("web", "nginx:1.27")
		template.Labels = labels
		want := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: plantest.Namespace, Name: "web-74f8f75d46", Labels: labels,
				Annotations: map[string]string{"kubernetes.io/change-cause": "first", revisionAnnotation: "1", desiredAnnotation: "3",
					maximumAnnotation: "4"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web",
					Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
			},
			Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3), MinReadySeconds: 7,
				Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}
		if diff := cmp.Diff(want, step.Object); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		failed := plan.Event{Type: "Warning", Reason: "ReplicaSetCreateError",
			Message: `Failed to create new replica set "web-74f8f75d46": {error}`}
		if step.Events.Failed != failed {
			t.Errorf("got %+v", step.Events.Failed)
		}
	})
}

// taken is a scene in which the name of the new ReplicaSet is that of another object.
func taken(d *appsv1.Deployment, edits ...func(*appsv1.ReplicaSet)) snapshot {
	s := snapshotWith(d)
	name := snapshot{Deployment: d, ReplicaSets: s.ReplicaSets}.nameToCheck()
	s.NameConflict = plantest.ReplicaSet(name, 2, plantest.Template("web", "other"), edits...)
	return s
}

func TestCollision(t *testing.T) {
	owned := plantest.OwnedBy(web(3))
	equal := func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Spec.Containers[0].Image = "v2" }
	foreign := func(rs *appsv1.ReplicaSet) { owned(rs); rs.OwnerReferences[0].UID = "uid-other" }
	sized := all(annotated(desiredAnnotation, "3"), annotated(maximumAnnotation, "4"), annotated(revisionAnnotation, "1"))
	again := func(d *appsv1.Deployment) { d.Status.CollisionCount = ptr.To[int32](3) }
	check(t, []row{
		{"DEP-25 ours and equal: it is the new one", taken(web(3), owned, equal, sized),
			[]string{snapshot{Deployment: web(3), ReplicaSets: nil}.nameToCheck() + ": 2 -> 3" +
				up(snapshot{Deployment: web(3), ReplicaSets: nil}.nameToCheck(), "2", "3")}, ""},
		{"DEP-25 ours, with another template: nothing is created", taken(web(3), owned, sized), nil, "taken"},
		{"DEP-25 foreign, though equal: nothing is created", taken(web(3), foreign, equal), nil, "taken"},
		{"DEP-25 an orphan without our labels: nothing is created", taken(web(3), func(rs *appsv1.ReplicaSet) { rs.Labels = nil }), nil,
			"taken"},
		{"DEP-25 Recreate collides, too", taken(web(3, recreate), foreign), nil, "taken"},
		{"DEP-25 rollback waits for the name", taken(web(3, rollbackNote("1")), foreign), nil, "taken"},
	})
	stolen := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences, rs.Labels = nil, nil }
	for what, edit := range map[string]func(*appsv1.ReplicaSet){"alters templates": owned, "takes labels away": stolen} {
		t.Run("DEP-25 what "+what+" behind our back is slowed down", func(t *testing.T) {
			s := taken(web(3, again), edit)
			s.NameConflict.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Second))
			p := rolledOut(now, s)
			if r := statusAfter(now, s, plan.Outcome{}); p.Requeue != 5*time.Second || *reported(t, s, r).CollisionCount != 3 {
				t.Errorf("got %v, %v", p.Requeue, lines(r.Steps))
			}
			if r := statusAfter(now.Add(5*time.Second), s, plan.Outcome{}); *reported(t, s, r).CollisionCount != 4 {
				t.Errorf("got %v", lines(r.Steps))
			}
		})
	}
}

// A selector that a new ReplicaSet cannot match would have them made without end. A size is taken only of the room that old pods have left.
func TestNewReplicaSets(t *testing.T) {
	unmatched := func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = "x"
		d.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x"
	}
	check(t, []row{
		{"its own label is in the selector", snapshotWith(web(3, unmatched)), nil, "the selector does not match"},
		{"DEP-41 old pods are still there", snapshotWith(web(4, moves("0", "2")), rs{image: "v0", size: 2, ready: 4}),
			[]string{"create size 0 revision 2 desired 4 max 4"}, ""},
	})
}

func TestNameToCheck(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	unlabelled := func(rs *appsv1.ReplicaSet) { rs.Labels = nil }
	for _, c := range []struct {
		name  string
		scene snapshot
		looks bool
	}{
		{"DEP-25 one is missing", snapshotWith(web(3), rs{image: "v1"}), true},
		{"DEP-25 one is there", snapshotWith(web(3), rs{image: "v2"}), false},
		{"DEP-25 one is there, but only to be released", snapshotWith(web(3), rs{image: "v2", edit: unlabelled}), true},
		{"DEP-25 one is there, but not ours yet", snapshotWith(web(3), rs{image: "v2", edit: orphan}), true},
		{"DEP-28 paused", snapshotWith(web(3, pausedNow)), false},
		{"DEP-28 being deleted", snapshotWith(web(3, deletedNow)), false},
		{"DEP-4.2 a broken selector", snapshotWith(web(3, func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Operator: "?"}}
		})), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _ := newName(c.scene.Deployment)
			if got := (snapshot{Deployment: c.scene.Deployment,
				ReplicaSets: c.scene.ReplicaSets}).nameToCheck(); (got == name) != c.looks || (got == "") == c.looks {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	patient := func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 30 }
	young := func(s snapshot, age time.Duration) snapshot {
		rs := s.ReplicaSets[len(s.ReplicaSets)-1]
		rs.Spec.MinReadySeconds = 30
		plantest.Ready(now.Add(-age))(s.Pods[rs.UID][0])
		return s
	}
	for _, c := range []struct {
		name  string
		scene snapshot
		want  time.Duration
	}{
		{"DEP-42 only time makes a pod available",
			young(snapshotWith(web(1, patient), rs{image: "v1", size: 1, ready: 1}, rs{image: "v2", size: 1, ready: 1}), 10*time.Second),
			20 * time.Second},
		{"DEP-42 its time has come", young(snapshotWith(web(1, patient), rs{image: "v2", size: 1, ready: 1}), 30*time.Second), 0},
		{"DEP-42 nothing to wait for", snapshotWith(web(1), rs{image: "v2", size: 1, pending: 1}), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rolledOut(now, c.scene).Requeue; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestLinger(t *testing.T) {
	// 100 replicas, surge 25, 25 may be unavailable: 50 pods in motion, a full batch is 6.
	since := func(s snapshot, n int, at time.Time) snapshot {
		for _, p := range s.Pods["uid-web-v2"][:n] {
			plantest.Ready(at)(p)
		}
		return s
	}
	motion := func(available int) snapshot {
		return snapshotWith(web(100), rs{image: "v1", size: 75, ready: 75},
			rs{image: "v2", size: 50, ready: available, pending: 50 - available})
	}
	for _, c := range []struct {
		name  string
		scene snapshot
		want  []string
		wait  time.Duration
	}{
		{"a few that just became available wait for more", since(motion(3), 3, now.Add(-300*time.Millisecond)), nil,
			700 * time.Millisecond},
		{"a full batch goes at once", since(motion(6), 6, now), []string{"web-v1: 75 -> 69" + down("web-v1", "75", "69")}, 0},
		{"a few go when the first of them has waited", since(since(motion(3), 3, now), 1, now.Add(-time.Second)),
			[]string{"web-v1: 75 -> 72" + down("web-v1", "75", "72")}, 0},
		{"clocks that are ahead don't hold it up", since(motion(3), 3, now.Add(time.Minute)),
			[]string{"web-v1: 75 -> 72" + down("web-v1", "75", "72")}, 0},
		{"the last ones go at once",
			since(snapshotWith(web(100), rs{image: "v1", size: 2, ready: 2}, rs{image: "v2", size: 100, ready: 90, pending: 10}), 90, now),
			[]string{"web-v1: 2 -> 0" + down("web-v1", "2", "0")}, 0},
		{"old ones that are not available go at once",
			since(snapshotWith(web(100), rs{image: "v1", size: 75, ready: 74, pending: 1},
				rs{image: "v2", size: 50, ready: 3, pending: 47}), 3, now),
			[]string{"web-v1: 75 -> 72" + down("web-v1", "75", "72")}, 0},
		{"a small rollout never waits",
			since(snapshotWith(web(10), rs{image: "v1", size: 8, ready: 8}, rs{image: "v2", size: 5, ready: 1, pending: 4}), 1, now),
			[]string{"web-v1: 8 -> 7" + down("web-v1", "8", "7")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := rolledOut(now, c.scene)
			if diff := cmp.Diff(c.want, lines(p.Steps)); diff != "" || p.Requeue != c.wait {
				t.Errorf("wait %v, -want +got:\n%s", p.Requeue, diff)
			}
		})
	}
}

func TestRecreate(t *testing.T) {
	behind := func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }
	counted := func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 1 }
	check(t, []row{
		{"DEP-48 first the old ones go", snapshotWith(web(3, recreate), rs{image: "v0", size: 1}, rs{image: "v1", size: 3, ready: 3}),
			[]string{"web-v0: 1 -> 0" + down("web-v0", "1", "0"), "web-v1: 3 -> 0" + down("web-v1", "3", "0")}, ""},
		{"DEP-48 while the status counts pods, it waits", snapshotWith(web(3, recreate), rs{image: "v1", edit: counted}), nil,
			"waiting for the last pods of web-v1 to be gone"},
		{"DEP-48 while the status is behind, it waits", snapshotWith(web(3, recreate), rs{image: "v1", edit: behind}), nil, "waiting"},
		{"DEP-48 while a pod terminates, it waits", snapshotWith(web(3, recreate), rs{image: "v1", terminating: 1}), nil, "waiting"},
		{"DEP-48 while a pod is alive, it waits",
			snapshotWith(web(3, recreate), rs{image: "v1", pending: 1, edit: func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 0 }}), nil,
			"waiting"},
		{"DEP-48 failed pods don't matter", snapshotWith(web(3, recreate), rs{image: "v1", crashed: 2}),
			[]string{"create size 3 revision 2 desired 3 max 3" + up("NEW", "0", "3")}, ""},
		{"DEP-48 then the new one comes, at full size", snapshotWith(web(3, recreate), rs{image: "v1"}),
			[]string{"create size 3 revision 2 desired 3 max 3" + up("NEW", "0", "3")}, ""},
		{"DEP-48 afterwards the history is cleaned up",
			settled(snapshotWith(web(3, recreate, keeps(0)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}), now),
			[]string{"delete web-v1"}, ""},
		{"DEP-49 an existing one waits, too",
			snapshotWith(web(3, recreate), rs{image: "v1", terminating: 1}, rs{image: "v2", size: 1, ready: 1}), nil, "waiting"},
		{"DEP-49 and jumps", snapshotWith(web(3, recreate), rs{image: "v1"}, rs{image: "v2"}),
			[]string{"web-v2: 0 -> 3" + up("web-v2", "0", "3")}, ""},
	})
}

func TestRollback(t *testing.T) {
	removed := "web: -deprecated.deployment.rollback.to"
	unchanged := ` [Warning DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment "web"]`
	full := rs{image: "v2", size: 3, ready: 3}
	check(t, []row{
		{"DEP-50 what is no number is ignored", snapshotWith(web(3, rollbackNote("last")), rs{image: "v1"}, full), nil, ""},
		{"DEP-50 while paused it is ignored", snapshotWith(web(3, pausedNow, rollbackNote("1")), rs{image: "v1"}, full), nil, ""},
		{"DEP-50 a missing new ReplicaSet is created first", snapshotWith(web(3, image("v3"), rollbackNote("1")), rs{image: "v1"}, full),
			[]string{"create size 1 revision 3 desired 3 max 4" + up("NEW", "0", "1"),
				"web: image v1 -deprecated.deployment.rollback.to [Normal DeploymentRollback: Rolled back deployment \"web\" to revision 1]"}, ""},
		{"DEP-50, DEP-48 Recreate: created without pods, the old ones are still there",
			snapshotWith(web(3, recreate, image("v3"), rollbackNote("1")), rs{image: "v1"}, full),
			[]string{"create size 0 revision 3 desired 3 max 3",
				"web: image v1 -deprecated.deployment.rollback.to [Normal DeploymentRollback: Rolled back deployment \"web\" to revision 1]"}, ""},
		{"DEP-50 zero is the last but one",
			snapshotWith(web(3, rollbackNote("0")), rs{image: "v0"}, rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}),
			[]string{"web: image v1 -deprecated.deployment.rollback.to [Normal DeploymentRollback: Rolled back deployment \"web\" to " +
				"revision 2]"}, ""},
		{"DEP-50 zero, the new one about to be created: the latest of the others",
			snapshotWith(web(3, image("v3"), rollbackNote("0")), rs{image: "v1"}, full),
			[]string{"create size 1 revision 3 desired 3 max 4" + up("NEW", "0", "1"),
				"web: image v2 -deprecated.deployment.rollback.to [Normal DeploymentRollback: Rolled back deployment \"web\" to revision 2]"}, ""},
		{"DEP-51 annotations come back, private ones stay",
			snapshotWith(web(3, rollbackNote("1"), note(corev1.LastAppliedConfigAnnotation, "{}"),
				note("kubernetes.io/change-cause", "second"), note("only", "now")),
				rs{image: "v1", edit: annotated("kubernetes.io/change-cause", "first")},
				rs{image: "v2", size: 3, ready: 3, edit: all(annotated("kubernetes.io/change-cause", "second"), annotated("only", "now"))}),
			[]string{"web: image v1 change-cause=first -deprecated.deployment.rollback.to -only [Normal DeploymentRollback: Rolled back " +
				"deployment \"web\" to revision 1]"}, ""},
		{"DEP-52 the same template", snapshotWith(web(3, rollbackNote("2")), rs{image: "v1"}, full), []string{removed + unchanged}, ""},
		{"DEP-52 the revision about to be created", snapshotWith(web(3, image("v3"), rollbackNote("3")), rs{image: "v1"}, full),
			[]string{"create size 1 revision 3 desired 3 max 4" + up("NEW", "0", "1"), removed + unchanged}, ""},
		{"DEP-52 not found", snapshotWith(web(3, rollbackNote("9")), rs{image: "v1"}, full),
			[]string{removed + " [Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.]"}, ""},
		{"DEP-52 no last but one", snapshotWith(web(3, rollbackNote("0")), rs{image: "v2", size: 3, ready: 3}),
			[]string{removed + " [Warning DeploymentRollbackRevisionNotFound: Unable to find last revision.]"}, ""},
		{"DEP-52 a negative revision", snapshotWith(web(3, rollbackNote("-1")), full),
			[]string{removed + " [Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.]"}, ""},
	})
	t.Run("DEP-51 the hash label stays behind", func(t *testing.T) {
		p := rolledOut(now, snapshotWith(web(3, rollbackNote("1")), rs{image: "v1"}, full))
		d := p.Steps[0].(plan.Change).New.(*appsv1.Deployment)
		if want := plantest.Template("web", "v1"); !cmp.Equal(want, d.Spec.Template) ||
			p.Steps[0].(plan.Change).Subresource == plan.Status {
			t.Errorf("-want +got:\n%s", cmp.Diff(want, d.Spec.Template))
		}
	})
}

func TestPauseAndDeletion(t *testing.T) {
	check(t, []row{
		{"DEP-57 paused: no new ReplicaSet", snapshotWith(web(3, pausedNow), rs{image: "v1", size: 3, ready: 3}), nil, "paused"},
		{"DEP-57 paused: it does not roll on",
			snapshotWith(web(3, pausedNow), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, ready: 1}), nil, "paused"},
		{"DEP-57 paused: scaling happens",
			snapshotWith(web(5, pausedNow), rs{image: "v1", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}),
			[]string{"web-v1: 3 -> 5 desired-replicas=5" + up("web-v1", "3", "5")}, ""},
		{"DEP-57 paused: the history is cleaned up",
			snapshotWith(web(3, pausedNow, keeps(0)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}), []string{"delete web-v1"}, ""},
		{"DEP-57 paused: what is scaled up is not cleaned up", snapshotWith(web(3, pausedNow, keeps(0)), rs{image: "v0"}, rs{image: "v1"}),
			[]string{"web-v1: 0 -> 3" + up("web-v1", "0", "3"), "delete web-v0"}, ""},
		{"DEP-37, DEP-43, DEP-57 paused and tightened: what never got ready goes, not what is available",
			snapshotWith(web(6, pausedNow, moves("1", "0")), rs{image: "v1", size: 5, ready: 5, edit: annotated(maximumAnnotation, "8")},
				rs{image: "v2", size: 3, pending: 3, edit: annotated(maximumAnnotation, "8")}),
			[]string{"web-v2: 3 -> 2 max-replicas=7" + down("web-v2", "3", "2"), "web-v1: max-replicas=7"}, ""},
		{"DEP-42 tightened, not paused: available pods stay until new ones take their place",
			snapshotWith(web(6, moves("1", "0")), rs{image: "v1", size: 5, ready: 5, edit: annotated(maximumAnnotation, "8")},
				rs{image: "v2", size: 3, pending: 3, edit: annotated(maximumAnnotation, "8")}), nil, "waiting for 3 of 3 pods of web-v2"},
		{"DEP-61 deleting: nothing is scaled, nothing is deleted",
			snapshotWith(web(5, deletedNow, keeps(0)), rs{image: "v1"},
				rs{image: "v2", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}), nil, "being deleted"},
	})
}

func TestCleanUp(t *testing.T) {
	done := func(limit *int32, old ...rs) snapshot {
		limited := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = limit }
		old = append(old, rs{image: "v2", size: 3, ready: 3, edit: annotated(revisionAnnotation, "99")})
		return settled(snapshotWith(web(3, limited), old...), now)
	}
	revision := func(image, r string) rs { return rs{image: image, edit: annotated(revisionAnnotation, r)} }
	busy := rs{image: "busy", edit: func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 1 }}
	unseen := rs{image: "unseen", edit: func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }}
	leaving := rs{image: "leaving", edit: func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }}
	unfinished := snapshotWith(web(3, keeps(0)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3})
	check(t, []row{
		{"DEP-62 no limit: all are kept", done(nil, rs{image: "a"}, rs{image: "b"}), nil, ""},
		{"DEP-62 the largest limit is none", done(ptr.To[int32](math.MaxInt32), rs{image: "a"}), nil, ""},
		{"DEP-62 within the limit", done(ptr.To[int32](2), rs{image: "a"}, rs{image: "b"}), nil, ""},
		{"DEP-62 the lowest revisions go", done(ptr.To[int32](1), revision("a", "3"), revision("b", "2"), revision("c", "1")),
			[]string{"delete web-c", "delete web-b"}, "beyond the history limit"},
		{"DEP-62 ties: the older goes", done(ptr.To[int32](1), revision("b", "1"), revision("a", "1")), []string{"delete web-b"}, ""},
		{"DEP-62 no number: the older goes", done(ptr.To[int32](2), revision("b", "7"), revision("a", "1"), revision("c", "x")),
			[]string{"delete web-b"}, ""},
		{"DEP-62 one with pods is kept, and no other goes for it", done(ptr.To[int32](1), busy, rs{image: "b"}), nil, ""},
		{"DEP-62 so is one whose status is behind", done(ptr.To[int32](1), unseen, rs{image: "b"}), nil, ""},
		{"DEP-62 those being deleted don't count", done(ptr.To[int32](1), leaving, rs{image: "b"}), nil, ""},
		{"DEP-63 not before the rollout is complete", unfinished, nil, ""},
		{"DEP-63 limit 0: all go", done(ptr.To[int32](0), rs{image: "a"}, rs{image: "b"}), []string{"delete web-a", "delete web-b"}, ""},
	})
	t.Run("DEP-46 not while a scale step is planned", func(t *testing.T) {
		s := done(ptr.To[int32](0), rs{image: "a"})
		s.ReplicaSets[1].Spec.Replicas = ptr.To[int32](4)
		if got := lines(rolledOut(now, s).Steps); len(got) != 1 || !strings.Contains(got[0], "4 -> 3") {
			t.Errorf("got %v", got)
		}
	})
}
