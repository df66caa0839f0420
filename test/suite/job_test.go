package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
)

// A pod may keep its finalizer only if it has failed, and its Job is suspended and may run its index again (JOB-67).
func TestPodsThatKeepTheFinalizer(t *testing.T) {
	job := func(edits ...func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true), BackoffLimitPerIndex: ptr.To[int32](1)}}
		for _, edit := range edits {
			edit(j)
		}
		return j
	}
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		as   corev1.PodPhase
		want bool
	}{
		{"held", job(), corev1.PodFailed, true},
		{"not suspended", job(func(j *batchv1.Job) { j.Spec.Suspend = nil }), corev1.PodFailed, false},
		{"no limit for each index", job(func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = nil }), corev1.PodFailed, false},
		{"has succeeded", job(), corev1.PodSucceeded, false},
		{"over", job(func(j *batchv1.Job) { actors.FinishJob(&j.Status, true, metav1.Now()) }), corev1.PodFailed, false},
	} {
		if got := heldForIndex(c.job, &corev1.Pod{Status: corev1.PodStatus{Phase: c.as}}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A Job without pods is settled if another controller manages it, or as long as its last failure delays the next pod.
func TestJobsThatRestWithoutPods(t *testing.T) {
	for _, c := range []struct {
		name     string
		edit     func(*batchv1.Job)
		failures int
		since    time.Duration
		wrong    int
	}{
		{"nothing has failed", nil, 0, time.Minute, 1},
		{"managed by another controller", func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To(actors.JobManager) }, 0, time.Minute, 0},
		{"four failures wait for 80 s", nil, 4, 79 * time.Second, 0},
		{"no longer", nil, 4, 80 * time.Second, 1},
		{"never longer than ten minutes", nil, 20, 10 * time.Minute, 1},
		{"of each index", func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](1) }, 4, time.Minute, 1},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sum", UID: "sum"}, Spec: JobSpec("flop:1")}
		j.Spec.ManagedBy, j.Spec.Parallelism = nil, ptr.To[int32](1)
		if c.edit != nil {
			c.edit(j)
		}
		there := given{j}
		for i := range c.failures {
			there = append(there, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					UID:               types.UID(fmt.Sprint("pod-", i)),
					CreationTimestamp: metav1.NewTime(time.Now().Add(-c.since)),
					OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
				},
				Status: corev1.PodStatus{Phase: corev1.PodFailed},
			})
		}
		view := &View{Source: there}
		if got := unsettledJobs(view); len(got) != c.wrong || view.Looked != 1 {
			t.Errorf("%s: of %d Jobs %v", c.name, view.Looked, got)
		}
	}
}

// given is a Source of objects that are there.
type given []Object

func (g given) Objects(kind schema.GroupVersionKind) []Object {
	return slices.DeleteFunc(slices.Clone(g), func(o Object) bool { return kindOf(o) != kind })
}
func (given) Everything() []Stored    { return nil }
func (given) Changes(string) []Change { return nil }
func (given) Authority() string       { return "" }
func (given) EventsLost() bool        { return true }
