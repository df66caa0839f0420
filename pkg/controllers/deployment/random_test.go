package deployment

import (
	"fmt"
	"math"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// anyDeployment draws a Deployment in any state.
func anyDeployment(t *rapid.T) *appsv1.Deployment {
	d := web(rapid.Int32Range(0, 8).Draw(t, "replicas"), image(images.Draw(t, "image")))
	d.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
	d.Spec.MinReadySeconds = rapid.SampledFrom([]int32{0, 0, 10}).Draw(t, "min ready")
	d.Spec.ProgressDeadlineSeconds = deadlines.Draw(t, "deadline")
	d.Spec.RevisionHistoryLimit = rapid.SampledFrom([]*int32{nil, ptr.To[int32](0), ptr.To[int32](1), ptr.To[int32](10)}).Draw(t, "limit")
	d.Spec.Paused = rapid.IntRange(0, 5).Draw(t, "paused") == 0
	switch rapid.IntRange(0, 9).Draw(t, "strategy") {
	case 0:
		recreate(d)
	case 1:
		d.Spec.Strategy.RollingUpdate = nil
	default:
		moves(amounts.Draw(t, "surge"), amounts.Draw(t, "unavailable"))(d)
	}
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
		deletedNow(d)
	}
	for _, key := range []string{rollbackAnnotation, revisionAnnotation, "kubernetes.io/change-cause"} {
		if rapid.IntRange(0, 4).Draw(t, "has "+key) == 0 {
			note(key, revisions.Draw(t, key))(d)
		}
	}
	if rapid.Bool().Draw(t, "has a status") {
		count := rapid.Int32Range(0, 9)
		reason := rapid.SampledFrom([]string{"", created, found, updated, finished, timedOut, notCreated, isPaused, isResumed}).Draw(t,
			"reason")
		age := time.Duration(rapid.IntRange(0, 1000).Draw(t, "age")) * time.Second
		knows(reason, now.Add(-age), d.Annotations[revisionAnnotation],
			count.Draw(t, "replicas before"), count.Draw(t, "updated before"), count.Draw(t, "ready before"),
			count.Draw(t, "available before"))(d)
		d.Status.CollisionCount = rapid.SampledFrom([]*int32{nil, ptr.To[int32](0), ptr.To[int32](2)}).Draw(t, "collisions")
	}
	return d
}

// anySnapshot draws a Deployment with ReplicaSets and pods in any state, however absurd.
func anySnapshot(t *rapid.T) snapshot {
	d := anyDeployment(t)
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}}
	for i := range rapid.IntRange(0, 4).Draw(t, "sets") {
		rs := anyReplicaSet(t, d, i)
		s.ReplicaSets = append(s.ReplicaSets, rs)
		s.Pods[rs.UID] = anyPods(t, rs)
	}
	if name := s.nameToCheck(); name != "" && rapid.IntRange(0, 4).Draw(t, "name conflict") == 0 {
		s.NameConflict = anyReplicaSet(t, d, 9)
		s.NameConflict.Name = name
	}
	return s
}

func anyReplicaSet(t *rapid.T, d *appsv1.Deployment, i int) *appsv1.ReplicaSet {
	rs := plantest.ReplicaSet(fmt.Sprintf("web-r%d", i), rapid.Int32Range(0, 6).Draw(t, "size"),
		plantest.Template("web", images.Draw(t, "image")), plantest.OwnedBy(d))
	rs.CreationTimestamp = metav1.NewTime(plantest.Epoch.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "born")) * time.Minute))
	rs.Generation = rapid.Int64Range(1, 2).Draw(t, "generation")
	rs.Spec.MinReadySeconds = rapid.SampledFrom([]int32{0, 0, 10}).Draw(t, "min ready")
	rs.Status.Replicas = rapid.Int32Range(0, 2).Draw(t, "counted")
	for key, value := range map[string]string{
		revisionAnnotation: revisions.Draw(t, "revision"), desiredAnnotation: numbers.Draw(t, "desired"),
		maximumAnnotation: numbers.Draw(t, "max"),
	} {
		if value != "" {
			annotated(key, value)(rs)
		}
	}
	switch rapid.IntRange(0, 19).Draw(t, "owner") {
	case 0:
		rs.OwnerReferences = nil
	case 1:
		rs.OwnerReferences[0].UID = "uid-other"
	case 2:
		rs.Labels = nil
	case 3:
		rs.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: "True", Reason: "FailedCreate",
			Message: images.Draw(t, "message")}}
	}
	return rs
}

func anyPods(t *rapid.T, rs *appsv1.ReplicaSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 7).Draw(t, "pods") {
		p := plantest.Pods(rs, i, 1)[0]
		since := now.Add(-time.Duration(rapid.IntRange(-5, 20).Draw(t, "since")) * time.Second)
		switch rapid.IntRange(0, 9).Draw(t, "state") {
		case 0:
			plantest.Phase(corev1.PodFailed)(p)
		case 1:
			plantest.Ready(since)(p)
			plantest.Terminating(p)
		case 2:
			p.Labels = nil
		case 3, 4:
		default:
			plantest.Ready(since)(p)
		}
		pods = append(pods, p)
	}
	return pods
}

// seen makes a snapshot with whatever users may write into annotations.
func seen(replicas int32, revision, desired, most, history, rollback string) snapshot {
	d := web(replicas, note(rollbackAnnotation, rollback), note(revisionAnnotation, revision))
	return snapshotWith(d,
		rs{image: "v1", size: 5, ready: 3,
			edit: all(annotated(revisionAnnotation, revision), annotated(desiredAnnotation, desired), annotated(maximumAnnotation, most))},
		rs{image: "v2", size: 2, ready: 1,
			edit: all(annotated(revisionAnnotation, desired), annotated(historyAnnotation, history), annotated(maximumAnnotation, most))})
}

func FuzzAnnotations(f *testing.F) {
	f.Add(int32(3), "1", "3", "4", "1,2", "")
	f.Add(int32(0), "", "x", "-1", ",,,", "0")
	f.Add(int32(math.MaxInt32), "9223372036854775807", "2147483647", "1", "\x00", "99999999999999999999")
	f.Fuzz(func(t *testing.T, replicas int32, revision, desired, most, history, rollback string) {
		s := seen(replicas, revision, desired, most, history, rollback)
		p := rolledOut(now, s)
		r := sortOut(now, s)
		before, after := planned(r, p.Steps)
		if added(after) > max(r.replicas+r.surge, added(before)) {
			t.Errorf("%v -> %v", before, after)
		}
		assertOncePerObject(t, p.Steps)
		for _, step := range p.Steps {
			if c, ok := step.(plan.Change); ok && c.Old != s.Deployment &&
				len(c.New.GetAnnotations()[historyAnnotation]) > max(longestHistory, len(history)) {
				t.Errorf("a history of %d characters", len(c.New.GetAnnotations()[historyAnnotation]))
			}
		}
		statusAfter(now, s, did(p, nil))
	})
}

func FuzzBounds(f *testing.F) {
	f.Add(int32(10), "25%", "25%", int32(0), int32(0), uint8(0))
	f.Add(int32(math.MaxInt32), "2147483647%", "-1%", int32(math.MaxInt32), int32(-1), uint8(3))
	f.Add(int32(1), "%", "1e3%", int32(1), int32(1), uint8(1))
	f.Fuzz(func(t *testing.T, replicas int32, surgeText, unavailableText string, surgeNumber, unavailableNumber int32, kinds uint8) {
		d := web(replicas)
		d.Spec.Strategy.RollingUpdate.MaxSurge = &intstr.IntOrString{Type: intstr.Type(kinds & 1), StrVal: surgeText, IntVal: surgeNumber}
		d.Spec.Strategy.RollingUpdate.MaxUnavailable = &intstr.IntOrString{Type: intstr.Type(kinds >> 1 & 1), StrVal: unavailableText,
			IntVal: unavailableNumber}
		n := number(&replicas)
		surge, unavailable, _ := bounds(d, n)
		if surge < 0 || surge > math.MaxInt32 || unavailable < 0 || unavailable > n || surge+unavailable == 0 && n > 0 {
			t.Errorf("%d replicas: surge %d, unavailable %d", n, surge, unavailable)
		}
		rolledOut(now, snapshotWith(d, rs{image: "v1", size: 3, ready: 2}, rs{image: "v2", size: 1}))
	})
}
