package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reported is the status after the report: what it writes, or what is there if it writes nothing.
func reported(t *testing.T, s snapshot, p plan.Plan) *appsv1.DeploymentStatus {
	t.Helper()
	if p.Empty() {
		return &s.Deployment.Status
	}
	c := p.Steps[0].(plan.Change)
	if c.Subresource != plan.Status || len(p.Steps) != 1 {
		t.Errorf("a report is one write of the status, not %v", lines(p.Steps))
	}
	return &c.New.(*appsv1.Deployment).Status
}

// says renders the conditions: "Available=True/MinimumReplicasAvailable Progressing=...".
func says(s *appsv1.DeploymentStatus) string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

const (
	available   = "Available=True/MinimumReplicasAvailable "
	unavailable = "Available=False/MinimumReplicasUnavailable "
)

// knows gives the Deployment a stored status: these counts (replicas, updated, ready, available), the reason of
// Progressing since the time, Available as they say, and the revision annotation.
func knows(reason string, since time.Time, revision string, counts ...int32) edit {
	return func(d *appsv1.Deployment) {
		s := &d.Status
		s.ObservedGeneration = d.Generation
		s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = counts[0], counts[1], counts[2], counts[3]
		s.TerminatingReplicas = ptr.To[int32](0)
		if reason != "" {
			status := corev1.ConditionTrue
			switch reason {
			case isPaused, isResumed:
				status = corev1.ConditionUnknown
			case timedOut, notCreated:
				status = corev1.ConditionFalse
			}
			c := progressing(status, reason, "before")
			c.LastUpdateTime, c.LastTransitionTime = metav1.NewTime(since), metav1.NewTime(since)
			s.Conditions = append(s.Conditions, c)
		}
		_, most, _ := bounds(d, number(d.Spec.Replicas))
		c := condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
		if int64(s.AvailableReplicas) >= number(d.Spec.Replicas)-most {
			c = condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
				"Deployment has minimum availability.")
		}
		c.LastUpdateTime, c.LastTransitionTime = metav1.NewTime(since), metav1.NewTime(since)
		s.Conditions = append(s.Conditions, c)
		s.UnavailableReplicas = 0
		note(revisionAnnotation, revision)(d)
	}
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		scene snapshot
		want  appsv1.DeploymentStatus
	}{
		{"DEP-64a, DEP-64b sums over old and new",
			snapshotWith(web(4), rs{image: "v1", size: 2, ready: 1, pending: 1},
				rs{image: "v2", size: 3, ready: 2, pending: 1, crashed: 4}),
			appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, UnavailableReplicas: 2}},
		{"DEP-64c unavailable are the sizes without the available ones", snapshotWith(web(4), rs{image: "v2", size: 4, ready: 1}),
			appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UnavailableReplicas: 3}},
		{"DEP-64c never negative", snapshotWith(web(1), rs{image: "v2", size: 1, ready: 3}),
			appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}},
		{"DEP-64d terminating ones",
			snapshotWith(web(1), rs{image: "v1", terminating: 2}, rs{image: "v2", size: 1, ready: 1, terminating: 1}),
			appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
				TerminatingReplicas: ptr.To[int32](3)}},
		{"DEP-64e collisions are kept",
			snapshotWith(web(1, func(d *appsv1.Deployment) { d.Status.CollisionCount = ptr.To[int32](2) }),
				rs{image: "v2", size: 1, pending: 1}),
			appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, UnavailableReplicas: 1, CollisionCount: ptr.To[int32](2)}},
		{"DEP-59 paused with a new template: nothing is up to date", snapshotWith(web(3, pausedNow), rs{image: "v1", size: 3, ready: 3}),
			appsv1.DeploymentStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}},
		{"DEP-64 no ReplicaSet yet", snapshotWith(web(3)), appsv1.DeploymentStatus{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := *reported(t, c.scene, statusAfter(now, c.scene, plan.Outcome{}))
			got.Conditions = nil
			c.want.ObservedGeneration = 1
			if c.want.TerminatingReplicas == nil {
				c.want.TerminatingReplicas = ptr.To[int32](0)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	hour := now.Add(-time.Hour)
	never := func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }
	endless := func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](2147483647) }
	full := rs{image: "v2", size: 3, ready: 3}
	half := []rs{{image: "v1", size: 3, ready: 3}, {image: "v2", size: 1, pending: 1}}
	for _, c := range []struct {
		name  string
		scene snapshot
		want  string
	}{
		{"DEP-67 available", snapshotWith(web(10), rs{image: "v2", size: 10, ready: 8}), available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-67 not available", snapshotWith(web(10), rs{image: "v2", size: 10, ready: 7}),
			unavailable + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-67 Recreate: all must be", snapshotWith(web(10, recreate), rs{image: "v2", size: 10, ready: 9}),
			unavailable + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-69 a new rollout by a ReplicaSet that was there", snapshotWith(web(3, knows(finished, hour, "1", 3, 3, 3, 3)), half...),
			available + "Progressing=True/FoundNewReplicaSet"},
		{"DEP-69 a new rollout by one made for it",
			named(snapshotWith(web(3, knows(finished, hour, "1", 3, 0, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1})), available + "Progressing=True/NewReplicaSetCreated"},
		{"DEP-72b one made for it, with pods by the time that is told",
			named(snapshotWith(web(3, knows(finished, hour, "1", 3, 3, 3, 3)), half...)), available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72b Recreate, likewise",
			named(snapshotWith(web(3, recreate, knows(finished, hour, "1", 3, 3, 3, 3)), rs{image: "v1"},
				rs{image: "v2", size: 3, pending: 3})), unavailable + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72b Recreate, old pods go while there is no new ReplicaSet",
			snapshotWith(web(3, recreate, knows(finished, hour, "1", 3, 3, 3, 3)), rs{image: "v1", ready: 2}),
			unavailable + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-69 one that could not be created before",
			snapshotWith(web(3, knows(notCreated, hour, "2", 3, 0, 3, 3)), rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1}),
			available + "Progressing=True/FoundNewReplicaSet"},
		{"DEP-69 one that could not be created for long, of another revision than is told",
			tells("web-v2", named(snapshotWith(web(3, knows(notCreated, hour, "1", 3, 0, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, edit: annotated(revisionAnnotation, "2")}))), available + "Progressing=True/NewReplicaSetCreated"},
		{"DEP-69 one that takes the place of another",
			tells("web-lost", named(snapshotWith(web(3, knows(finished, hour, "1", 0, 0, 0, 0)), rs{image: "v2", size: 3}))),
			unavailable + "Progressing=True/NewReplicaSetCreated"},
		{"DEP-75 the status tells of this one: no rollout begins",
			tells("web-v2", snapshotWith(web(3, knows(finished, hour, "2", 3, 3, 0, 0)), rs{image: "v1"}, rs{image: "v2", size: 3})),
			unavailable + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-69 one made for it once, but brought back",
			brought(named(snapshotWith(web(3, knows(finished, hour, "1", 3, 0, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1}))), available + "Progressing=True/FoundNewReplicaSet"},
		{"DEP-69 no Progressing yet", snapshotWith(web(3, knows("", hour, "2", 4, 1, 3, 3)), half...),
			available + "Progressing=True/FoundNewReplicaSet"},
		{"DEP-70 without deadline, no Progressing", snapshotWith(web(3, never, knows(updated, hour, "2", 4, 1, 3, 3)), half...),
			strings.TrimSpace(available)},
		{"DEP-70 the largest deadline is none", snapshotWith(web(3, endless, knows(updated, hour, "2", 4, 1, 3, 3)), half...),
			strings.TrimSpace(available)},
		{"DEP-72a complete", snapshotWith(web(3, knows(updated, hour, "2", 4, 3, 3, 3)), rs{image: "v1"}, full),
			available + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-71 not complete while an old pod is left",
			snapshotWith(web(3, knows(updated, now, "2", 4, 3, 4, 4)), rs{image: "v1", ready: 1}, full),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72b progress: more updated", snapshotWith(web(3, knows(isResumed, hour, "2", 3, 0, 3, 3)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72b progress: fewer old ones", snapshotWith(web(3, knows(isResumed, hour, "2", 5, 1, 4, 4)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72b progress: more ready and available", snapshotWith(web(3, knows(isResumed, hour, "2", 4, 1, 2, 2)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-72c timed out", snapshotWith(web(3, knows(updated, now.Add(-601*time.Second), "2", 4, 1, 3, 3)), half...),
			available + "Progressing=False/ProgressDeadlineExceeded"},
		{"DEP-73 not before its time", snapshotWith(web(3, knows(updated, now.Add(-600*time.Second), "2", 4, 1, 3, 3)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-73 later progress takes it back", snapshotWith(web(3, knows(timedOut, hour, "2", 4, 1, 2, 2)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-73 without progress it stays", snapshotWith(web(3, knows(timedOut, now, "2", 4, 1, 3, 3)), half...),
			available + "Progressing=False/ProgressDeadlineExceeded"},
		{"DEP-75 a finished one does not time out when its pods fail",
			snapshotWith(web(3, knows(finished, hour, "2", 3, 3, 3, 3)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 1, pending: 2}),
			unavailable + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-75 nor when its pods are gone",
			snapshotWith(web(3, knows(finished, hour, "2", 3, 3, 3, 3)), rs{image: "v1"}, rs{image: "v2", size: 3}),
			unavailable + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-75 nor does one begin when somebody puts an older revision there",
			tells("web-v2", snapshotWith(web(3, knows(finished, hour, "1", 3, 3, 2, 2)), rs{image: "v1"},
				rs{image: "v2", size: 3, ready: 2, pending: 1, edit: annotated(revisionAnnotation, "3")})),
			unavailable + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-75 nor does that take back that it has timed out",
			tells("web-v2", snapshotWith(web(3, knows(timedOut, hour, "1", 3, 3, 2, 2)), rs{image: "v1"},
				rs{image: "v2", size: 3, ready: 2, pending: 1, edit: annotated(revisionAnnotation, "3")})),
			unavailable + "Progressing=False/ProgressDeadlineExceeded"},
		{"DEP-55 paused", snapshotWith(web(3, pausedNow, knows(finished, hour, "1", 3, 3, 3, 3)), rs{image: "v1", size: 3, ready: 3}),
			available + "Progressing=Unknown/DeploymentPaused"},
		{"DEP-55 paused from the start", snapshotWith(web(3, pausedNow)), unavailable + "Progressing=Unknown/DeploymentPaused"},
		{"DEP-55 paused after a timeout", snapshotWith(web(3, pausedNow, knows(timedOut, hour, "2", 4, 1, 3, 3)), half...),
			available + "Progressing=False/ProgressDeadlineExceeded"},
		{"DEP-55 resumed", snapshotWith(web(3, knows(isPaused, hour, "2", 4, 1, 3, 3)), half...),
			available + "Progressing=Unknown/DeploymentResumed"},
		{"DEP-55 resumed and complete", snapshotWith(web(3, knows(isPaused, hour, "2", 3, 3, 3, 3)), rs{image: "v1"}, full),
			available + "Progressing=True/NewReplicaSetAvailable"},
		{"DEP-55 paused without deadline", snapshotWith(web(3, pausedNow, never), rs{image: "v1", size: 3, ready: 3}),
			strings.TrimSpace(available)},
		{"DEP-60 scaling does not judge progress",
			snapshotWith(web(5, knows(updated, hour, "1", 1, 1, 1, 1)),
				rs{image: "v2", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}),
			unavailable + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-60 scaling and a new template in one go: the rollout has begun all the same",
			snapshotWith(web(5, knows(finished, hour, "1", 3, 3, 3, 3)),
				rs{image: "v1", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}, rs{image: "v2"}),
			unavailable + "Progressing=True/FoundNewReplicaSet"},
		{"DEP-61 deleting: nothing is judged", snapshotWith(web(3, deletedNow, knows(updated, hour, "1", 4, 1, 3, 3)), half...),
			available + "Progressing=True/ReplicaSetUpdated"},
		{"DEP-4.9 an unknown strategy: nothing is judged",
			snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Canary" }, knows(updated, hour, "2", 3, 3, 3, 3)),
				rs{image: "v1"}, full), available + "Progressing=True/ReplicaSetUpdated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := reported(t, c.scene, statusAfter(now, c.scene, plan.Outcome{}))
			if got := says(status); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// tells lets Progressing tell of a ReplicaSet.
func tells(name string, s snapshot) snapshot {
	c := find(s.Deployment.Status.Conditions, appsv1.DeploymentProgressing)
	c.Message = fmt.Sprintf("ReplicaSet %q has successfully progressed.", name)
	return s
}

// named gives the last ReplicaSet the name that the Deployment's template gets.
func named(s snapshot) snapshot {
	rs := s.ReplicaSets[len(s.ReplicaSets)-1]
	rs.Name, _ = newName(s.Deployment)
	return s
}

// brought makes the last ReplicaSet one with a history.
func brought(s snapshot) snapshot {
	annotated(historyAnnotation, "1")(s.ReplicaSets[len(s.ReplicaSets)-1])
	return s
}

func TestMessagesAndTimes(t *testing.T) {
	hour := now.Add(-time.Hour)
	one := func(s snapshot, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
		return *find(reported(t, s, statusAfter(now, s, plan.Outcome{})).Conditions, kind)
	}
	old := rs{image: "v1", size: 3, ready: 3}
	for _, c := range []struct {
		name                string
		got                 appsv1.DeploymentCondition
		message             string
		updated, transition time.Time
	}{
		{"DEP-66 unchanged: message and times stay",
			one(snapshotWith(web(3, knows(isPaused, hour, "1", 3, 3, 3, 3), pausedNow), rs{image: "v1", size: 2, ready: 2}), "Progressing"),
			"before", hour, hour},
		{"DEP-66 another reason, the same status: the transition stays",
			one(snapshotWith(web(3, knows(updated, hour, "1", 4, 3, 4, 4)), rs{image: "v2", size: 3, ready: 3}), "Progressing"),
			`ReplicaSet "web-v2" has successfully progressed.`, now, hour},
		{"DEP-66 another status",
			one(snapshotWith(web(3, knows(updated, hour, "1", 3, 3, 3, 3)), rs{image: "v2", size: 3, ready: 1}), "Available"),
			"Deployment does not have minimum availability.", now, now},
		{"DEP-67 available", one(snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3}), "Available"),
			"Deployment has minimum availability.", now, now},
		{"DEP-72b progress renews the time, though the reason is the same",
			one(snapshotWith(web(3, knows(updated, hour, "2", 4, 1, 2, 2)), old, rs{image: "v2", size: 1, pending: 1}), "Progressing"),
			`ReplicaSet "web-v2" is progressing.`, now, hour},
		{"DEP-56 resuming restarts the deadline",
			one(snapshotWith(web(3, knows(isPaused, hour, "2", 4, 1, 3, 3)), old, rs{image: "v2", size: 1, pending: 1}), "Progressing"),
			"Deployment is resumed", now, hour},
		{"DEP-55 pausing", one(snapshotWith(web(3, pausedNow), old), "Progressing"), "Deployment is paused", now, now},
		{"DEP-69 timed out",
			one(snapshotWith(web(3, knows(updated, hour, "2", 4, 1, 3, 3)), old, rs{image: "v2", size: 1, pending: 1}), "Progressing"),
			`ReplicaSet "web-v2" has timed out progressing.`, now, now},
		{"DEP-69 no new ReplicaSet: the Deployment is the subject",
			one(snapshotWith(web(3, recreate, knows(updated, hour, "1", 3, 0, 3, 3)), rs{image: "v1", ready: 1}), "Progressing"),
			`Deployment "web" is progressing.`, now, hour},
		{"DEP-69 found, with fresh times",
			one(snapshotWith(web(3, knows(finished, hour, "1", 4, 1, 3, 3)), old, rs{image: "v2", size: 1, pending: 1}), "Progressing"),
			`Found new replica set "web-v2"`, now, hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got.Message != c.message || !c.got.LastUpdateTime.Time.Equal(c.updated) ||
				!c.got.LastTransitionTime.Time.Equal(c.transition) {
				t.Errorf("got %+v", c.got)
			}
		})
	}
	t.Run("DEP-66 a changed condition moves to the end", func(t *testing.T) {
		s := snapshotWith(web(3, knows(updated, hour, "1", 4, 3, 4, 4)), rs{image: "v2", size: 3, ready: 3})
		list := reported(t, s, statusAfter(now, s, plan.Outcome{})).Conditions
		if len(list) != 2 || list[1].Type != appsv1.DeploymentProgressing {
			t.Errorf("got %v", list)
		}
	})
}

// Servers store whole seconds: a condition that was put again within the same second is no difference.
func TestConditionsHaveWholeSeconds(t *testing.T) {
	put := func(after time.Duration, list []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
		r := &rollout{snapshot: snapshotWith(web(1))}
		return r.put(list, progressing(corev1.ConditionTrue, updated, "x"), now.Truncate(time.Second).Add(after))
	}
	first := put(100*time.Millisecond, nil)
	if again := put(900*time.Millisecond, slices.Clone(first)); !equality.Semantic.DeepEqual(again, first) {
		t.Errorf("within the same second %+v has become %+v", first, again)
	}
	if later := put(time.Second, slices.Clone(first)); equality.Semantic.DeepEqual(later, first) {
		t.Errorf("a second later it is still %+v", later)
	}
}

func TestReplicaFailure(t *testing.T) {
	fails := func(message string, at time.Time) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) {
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
				Reason: "FailedCreate", Message: message, LastTransitionTime: metav1.NewTime(at)}}
		}
	}
	stored := func(s snapshot) snapshot { return settled(s, now) }
	failure := func(s snapshot, did plan.Outcome) *appsv1.DeploymentCondition {
		return find(reported(t, s, statusAfter(now, s, did)).Conditions, appsv1.DeploymentReplicaFailure)
	}
	early, late := plantest.Epoch.Add(time.Minute), plantest.Epoch.Add(time.Hour)
	t.Run("DEP-68 copied, the new one's first", func(t *testing.T) {
		got := failure(snapshotWith(web(3), rs{image: "v1", size: 2, edit: fails("old", early)},
			rs{image: "v2", size: 1, edit: fails("quota", late)}), plan.Outcome{})
		if got == nil || got.Message != "quota" || got.Reason != "FailedCreate" || got.Status != "True" ||
			!got.LastUpdateTime.Time.Equal(late) || !got.LastTransitionTime.Time.Equal(late) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("DEP-68 else the oldest old one's", func(t *testing.T) {
		got := failure(snapshotWith(web(3), rs{image: "v0", size: 1, edit: fails("oldest", early)},
			rs{image: "v1", size: 1, edit: fails("older", early)}, rs{image: "v2", size: 1}), plan.Outcome{})
		if got == nil || got.Message != "oldest" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("DEP-68 the message is always the present one, and written at once", func(t *testing.T) {
		s := stored(snapshotWith(web(3), rs{image: "v2", size: 3, edit: fails("first", early)}))
		s.ReplicaSets[0] = s.ReplicaSets[0].DeepCopy()
		fails("second", early)(s.ReplicaSets[0])
		if got := failure(s, plan.Outcome{}); got == nil || got.Message != "second" {
			t.Errorf("got %+v", got)
		}
		if p := statusAfter(now, s, plan.Outcome{}); p.When.Quiet != 0 {
			t.Errorf("debounced for %v", p.When.Quiet)
		}
	})
	t.Run("DEP-68 removed when it is over, at once", func(t *testing.T) {
		s := stored(snapshotWith(web(3), rs{image: "v2", size: 3, edit: fails("first", early)}))
		s.ReplicaSets[0] = s.ReplicaSets[0].DeepCopy()
		s.ReplicaSets[0].Status.Conditions = nil
		if p := statusAfter(now, s, plan.Outcome{}); failure(s, plan.Outcome{}) != nil || p.When.Quiet != 0 || p.Empty() {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("DEP-60 not looked at while paused", func(t *testing.T) {
		if got := failure(snapshotWith(web(3, pausedNow), rs{image: "v2", size: 3, edit: fails("quota", early)}),
			plan.Outcome{}); got != nil {
			t.Errorf("got %+v", got)
		}
	})
}

// did makes the outcome of a plan whose first write failed with the error; nil: all was done.
func did(p plan.Plan, err error) plan.Outcome {
	var o plan.Outcome
	var walk func([]plan.Step)
	walk = func(steps []plan.Step) {
		for _, step := range steps {
			switch s := step.(type) {
			case plan.Create:
				o.Results = append(o.Results, plan.Result{Verb: plan.Created, Object: s.Object})
			case plan.Change:
				o.Results = append(o.Results, plan.Result{Verb: plan.Changed, Object: s.New, Subresource: s.Subresource})
			case plan.Each:
				for _, sequence := range s.Sequences {
					walk(sequence)
				}
			}
		}
	}
	walk(p.Steps)
	if o.Err = err; err != nil {
		o.Results = o.Results[:1]
		o.Results[0].Err = err
	}
	return o
}

func TestOutcome(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "replicasets"}, "web", errors.New("quota"))
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "replicasets"}, "web")
	never := func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }
	for _, c := range []struct {
		name     string
		scene    snapshot
		err      error
		want     string // the conditions; empty if nothing may be reported
		debounce time.Duration
	}{
		{"DEP-27 created", snapshotWith(web(3)), nil, unavailable + "Progressing=True/NewReplicaSetCreated", plan.Soon().Longest},
		{"DEP-26 creation failed", snapshotWith(web(3)), denied, unavailable + "Progressing=False/ReplicaSetCreateError", 0},
		{"DEP-26 creation failed, no deadline", snapshotWith(web(3, never)), denied, strings.TrimSpace(unavailable), plan.Soon().Longest},
		{"DEP-26 creation failed in a rollback", snapshotWith(web(3, rollbackNote("1"))), denied,
			unavailable + "Progressing=False/ReplicaSetCreateError", 0},
		{"DEP-25 the name was taken, the cache did not know", snapshotWith(web(3)), exists, strings.TrimSpace(unavailable),
			plan.Soon().Longest},
		{"DEP-25 the plan was stale", snapshotWith(web(3)), plan.ErrStale, strings.TrimSpace(unavailable), plan.Soon().Longest},
		{"DEP-7 adopted", snapshotWith(web(3), rs{image: "v2", size: 3, edit: func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }}),
			nil, "", 0},
		{"DEP-7 adoption failed",
			snapshotWith(web(3), rs{image: "v2", size: 3, edit: func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }}), denied, "", 0},
		{"DEP-7 release failed", snapshotWith(web(3), rs{image: "v2", size: 3, edit: func(rs *appsv1.ReplicaSet) { rs.Labels = nil }}),
			denied, "", 0},
		{"DEP-45 scaling failed: the counts are right all the same",
			snapshotWith(web(3, knows(updated, now, "1", 2, 2, 1, 1)), rs{image: "v2", size: 2, ready: 2}), denied,
			unavailable + "Progressing=True/ReplicaSetUpdated", time.Second},
		{"DEP-51 rolled back", snapshotWith(web(3, rollbackNote("9")), rs{image: "v2", size: 3, ready: 3}), nil, "", 0},
		{"DEP-51 rollback failed", snapshotWith(web(3, rollbackNote("9")), rs{image: "v2", size: 3, ready: 3}), denied, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := statusAfter(now, c.scene, did(rolledOut(now, c.scene), c.err))
			if c.want == "" {
				if !p.Empty() {
					t.Errorf("got %s", says(reported(t, c.scene, p)))
				}
				return
			}
			if got := says(reported(t, c.scene, p)); got != c.want || p.When.Longest != c.debounce {
				t.Errorf("got  %s, debounced for %v\nwant %s, debounced for %v", got, p.When.Longest, c.want, c.debounce)
			}
		})
	}
	t.Run("DEP-26 the message names the error", func(t *testing.T) {
		s := snapshotWith(web(3, image("nginx:1.27")))
		status := reported(t, s, statusAfter(now, s, did(rolledOut(now, s), denied)))
		want := `Failed to create new replica set "web-74f8f75d46": ` + denied.Error()
		if got := find(status.Conditions, appsv1.DeploymentProgressing); got.Message != want {
			t.Errorf("got %q", got.Message)
		}
	})
	t.Run("DEP-5, DEP-26 a namespace that terminates: nothing is recorded", func(t *testing.T) {
		if p := statusAfter(now, snapshotWith(web(3)), plan.Outcome{Stopped: true}); !p.Empty() {
			t.Errorf("got %v", lines(p.Steps))
		}
	})
	t.Run("DEP-27 the revision goes with it", func(t *testing.T) {
		s := snapshotWith(web(3), rs{image: "v1", size: 3, ready: 3})
		if got := lines(statusAfter(now, s, did(rolledOut(now, s), nil)).Steps); !cmp.Equal(got, []string{"web status: revision=2"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestRevisionOfDeployment(t *testing.T) {
	for _, c := range []struct {
		name  string
		scene snapshot
		want  []string
	}{
		{"DEP-17 follows the new ReplicaSet, through the status",
			snapshotWith(web(3, knows(updated, now, "1", 3, 3, 3, 3)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}),
			[]string{"web status: revision=2"}},
		{"DEP-17 as it will be after upkeep", snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3}, rs{image: "v3"}),
			[]string{"web status: revision=3"}},
		{"DEP-17 also while paused", snapshotWith(web(3, pausedNow), rs{image: "v2", size: 3, ready: 3}),
			[]string{"web status: revision=1"}},
		{"DEP-17 also while deleting", snapshotWith(web(3, deletedNow), rs{image: "v2", size: 3, ready: 3}),
			[]string{"web status: revision=1"}},
		{"DEP-17 without new ReplicaSet it stays",
			snapshotWith(web(3, pausedNow, note(revisionAnnotation, "4")), rs{image: "v1", size: 3, ready: 3}), []string{"web status:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(statusAfter(now, c.scene, plan.Outcome{}).Steps)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSelectsAll(t *testing.T) {
	s := snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{}; d.Generation = 4 }))
	p := statusAfter(now, s, plan.Outcome{})
	want := []string{"web status: [Warning SelectingAll: This deployment is selecting all pods. A non-empty selector is required.]"}
	if diff := cmp.Diff(want, lines(p.Steps)); diff != "" || p.When.Quiet != 0 {
		t.Errorf("DEP-79 -want +got:\n%s", diff)
	}
	if got := reported(t, s, p); got.ObservedGeneration != 4 || len(got.Conditions) != 0 {
		t.Errorf("DEP-4.2 got %+v", got)
	}
	s.Deployment.Status.ObservedGeneration = 4
	if p := statusAfter(now, s, plan.Outcome{}); !p.Empty() {
		t.Errorf("DEP-4.2 said twice: %v", lines(p.Steps))
	}
}

func TestCollisionCount(t *testing.T) {
	foreign := func(rs *appsv1.ReplicaSet) { rs.Labels = nil }
	counted := func(n int32) edit { return func(d *appsv1.Deployment) { d.Status.CollisionCount = &n } }
	for _, c := range []struct {
		name  string
		scene snapshot
		want  *int32
	}{
		{"DEP-25 the first", taken(web(3), foreign), ptr.To[int32](1)},
		{"DEP-25 one more", taken(web(3, counted(1)), foreign), ptr.To[int32](2)},
		{"DEP-25 in a rollback", taken(web(3, rollbackNote("0")), foreign), ptr.To[int32](1)},
		{"DEP-25 Recreate, when its time has come", taken(web(3, recreate), foreign), ptr.To[int32](1)},
		{"DEP-64e the name is free", snapshotWith(web(3, counted(7))), ptr.To[int32](7)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := statusAfter(now, c.scene, did(rolledOut(now, c.scene), nil))
			if got := reported(t, c.scene, p).CollisionCount; !ptr.Equal(got, c.want) {
				t.Errorf("got %v", got)
			}
			if collided := c.scene.NameConflict != nil; collided && p.When.Quiet != 0 {
				t.Errorf("debounced for %v", p.When.Quiet)
			}
		})
	}
	t.Run("DEP-48 Recreate that still waits: the name does not matter yet", func(t *testing.T) {
		s := snapshotWith(web(3, recreate), rs{image: "v1", terminating: 1})
		s.NameConflict = taken(web(3, recreate), foreign).NameConflict
		if got := reported(t, s, statusAfter(now, s, plan.Outcome{})).CollisionCount; got != nil {
			t.Errorf("got %d", *got)
		}
	})
}

// TestDebounce tells what is written at once, and what may wait for something newer.
func TestDebounce(t *testing.T) {
	hour := now.Add(-time.Hour)
	behind := func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = 2 }
	full := rs{image: "v2", size: 3, ready: 3}
	for _, c := range []struct {
		name  string
		scene snapshot
		wrote bool
		want  time.Duration
	}{
		{"newly complete, all agree: at once", snapshotWith(web(3, knows(updated, now, "1", 3, 3, 2, 2)), full), false, 0},
		{"newly complete, a ReplicaSet's status is behind: debounced",
			snapshotWith(web(3, knows(updated, now, "1", 3, 3, 2, 2)), rs{image: "v2", size: 3, ready: 3, edit: behind}), false,
			plan.Soon().Longest},
		{"newly complete, old pods terminate: debounced",
			snapshotWith(web(3, knows(updated, now, "2", 3, 3, 2, 3)), rs{image: "v1", terminating: 1}, full), false, plan.Soon().Longest},
		{"mere progress: debounced",
			snapshotWith(web(3, knows(updated, now, "2", 4, 1, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, ready: 1}), true, time.Second},
		{"a new generation, though something was written: debounced, but not for long",
			snapshotWith(web(3, knows(updated, now, "2", 4, 1, 3, 3), func(d *appsv1.Deployment) { d.Generation = 2 }),
				rs{image: "v1", size: 3, ready: 3}, rs{image: "v2", size: 1, ready: 1}), true, plan.Soon().Longest},
		{"Available, for the first time, while it moves: debounced", snapshotWith(web(10), rs{image: "v2", size: 10, ready: 8, pending: 2}),
			false, plan.Soon().Longest},
		{"not Available, for the first time: debounced", snapshotWith(web(10), rs{image: "v2", size: 10, ready: 1, pending: 9}), false,
			plan.Soon().Longest},
		{"no longer Available: at once",
			snapshotWith(web(3, knows(finished, hour, "1", 3, 3, 3, 3)), rs{image: "v2", size: 3, ready: 2, pending: 1}), false, 0},
		{"Available again: at once",
			snapshotWith(web(10, knows(finished, hour, "1", 10, 10, 7, 7)), rs{image: "v2", size: 10, ready: 8, pending: 2}), false, 0},
		{"no longer Available, but the next look follows at once: debounced",
			snapshotWith(web(5, knows(finished, hour, "1", 3, 3, 3, 3)),
				rs{image: "v2", size: 3, ready: 3, edit: annotated(desiredAnnotation, "3")}), true, time.Second},
		{"timed out: at once",
			snapshotWith(web(3, knows(updated, hour, "2", 4, 1, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, pending: 1}), false, 0},
		{"timed out, though something was written: at once",
			snapshotWith(web(3, knows(updated, hour, "2", 4, 1, 3, 3), note("team", "shop")), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, pending: 1}), true, 0},
		{"paused: at once",
			snapshotWith(web(3, pausedNow, knows(updated, hour, "2", 4, 1, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, pending: 1}), false, 0},
		{"resumed: at once",
			snapshotWith(web(3, knows(isPaused, hour, "2", 4, 1, 3, 3)), rs{image: "v1", size: 3, ready: 3},
				rs{image: "v2", size: 1, pending: 1}), false, 0},
		{"paused and at rest, with a new template: at once",
			snapshotWith(web(3, pausedNow, knows(isPaused, hour, "1", 3, 3, 3, 3)), rs{image: "v1", size: 3, ready: 3}), false, 0},
		{"at rest, a new generation: at once",
			snapshotWith(web(3, knows(finished, hour, "1", 3, 3, 3, 3), func(d *appsv1.Deployment) { d.Generation = 2 }), full), false, 0},
		{"deleting, at rest: at once", snapshotWith(web(3, deletedNow, knows(finished, hour, "1", 3, 2, 3, 3)), full), false, 0},
		{"deleting, pods go: debounced",
			snapshotWith(web(3, deletedNow, knows(finished, hour, "1", 3, 3, 3, 3)), rs{image: "v2", size: 3, ready: 3, terminating: 1}),
			false, time.Second},
	} {
		t.Run("DEP-65 "+c.name, func(t *testing.T) {
			p := rolledOut(now, c.scene)
			if !p.Empty() != c.wrote && !strings.Contains(c.name, "debounced") {
				t.Fatalf("plans %v", lines(p.Steps))
			}
			var outcome plan.Outcome
			if c.wrote {
				outcome = did(p, nil)
			}
			r := statusAfter(now, c.scene, outcome)
			if r.When.Longest != c.want || r.Empty() {
				t.Errorf("debounced for %v, want %v: %v", r.When.Longest, c.want, says(reported(t, c.scene, r)))
			}
		})
	}
	t.Run("DEP-65, DEP-48 unchanged: no write", func(t *testing.T) {
		s := settled(snapshotWith(web(3), rs{image: "v1"}, full), now)
		if p := statusAfter(now.Add(time.Hour), s, plan.Outcome{}); !p.Empty() || p.Requeue != 0 {
			t.Errorf("got %v after %v", lines(p.Steps), p.Requeue)
		}
	})
}

// A Deployment keeps its turn until it has come to rest, whether there is something to report or not.
func TestMoving(t *testing.T) {
	behind := func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = 2 }
	full := rs{image: "v2", size: 3, ready: 3}
	for _, c := range []struct {
		name  string
		scene snapshot
		want  bool
	}{
		{"at rest", snapshotWith(web(3), rs{image: "v1"}, full), false},
		{"a pod is not ready", snapshotWith(web(3), rs{image: "v2", size: 3, ready: 2, pending: 1}), true},
		{"old pods go", snapshotWith(web(3), rs{image: "v1", terminating: 1}, full), true},
		{"a ReplicaSet's status is behind", snapshotWith(web(3), rs{image: "v2", size: 3, ready: 3, edit: behind}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := statusAfter(now, c.scene, plan.Outcome{})
			again := statusAfter(now, settled(c.scene, now), plan.Outcome{})
			if first.Progressing != c.want || again.Progressing != c.want || !again.Empty() {
				t.Errorf("moving %v, having reported %v (%v), want %v", first.Progressing, again.Progressing, lines(again.Steps), c.want)
			}
		})
	}
}

func TestDeadlineTimer(t *testing.T) {
	at := now.Add(-100 * time.Second)
	half := []rs{{image: "v1", size: 3, ready: 3}, {image: "v2", size: 1, pending: 1}}
	for _, c := range []struct {
		name  string
		scene snapshot
		want  time.Duration
	}{
		{"DEP-74 a second after the deadline", snapshotWith(web(3, knows(updated, at, "2", 4, 1, 3, 3)), half...), 501 * time.Second},
		{"DEP-74 also when something is written", snapshotWith(web(3, knows(updated, at, "2", 4, 1, 2, 2)), half...), 601 * time.Second},
		{"DEP-74 at the deadline", snapshotWith(web(3, knows(updated, now.Add(-600*time.Second), "2", 4, 1, 3, 3)), half...), time.Second},
		{"DEP-74 not when timed out", snapshotWith(web(3, knows(timedOut, at, "2", 4, 1, 3, 3)), half...), 0},
		{"DEP-74 not when complete",
			snapshotWith(web(3, knows(updated, at, "2", 4, 3, 3, 3)), rs{image: "v1"}, rs{image: "v2", size: 3, ready: 3}), 0},
		{"DEP-74 not while paused", snapshotWith(web(3, pausedNow, knows(updated, at, "2", 4, 1, 3, 3)), half...), 0},
		{"DEP-70 not without deadline", snapshotWith(web(3, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }), half...),
			0},
		{"DEP-74b a finished one with a pod that is not available needs none",
			snapshotWith(web(3, knows(finished, now.Add(-time.Hour), "1", 3, 3, 2, 2)), rs{image: "v2", size: 3, ready: 2, pending: 1}), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statusAfter(now, c.scene, plan.Outcome{}).Requeue; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
