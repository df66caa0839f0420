package suite

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// A pod that has failed may keep its finalizer only if its Job is suspended, may run its index again, and lists it (JOB-67).
func TestPodsThatKeepTheFinalizer(t *testing.T) {
	job := func(edits ...func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true), BackoffLimitPerIndex: ptr.To[int32](1)}}
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
		for _, edit := range edits {
			edit(j)
		}
		return j
	}
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		want bool
	}{
		{"held", job(), true},
		{"not suspended", job(func(j *batchv1.Job) { j.Spec.Suspend = nil }), false},
		{"no limit for each index", job(func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = nil }), false},
		{"not listed", job(func(j *batchv1.Job) { j.Status.UncountedTerminatedPods = nil }), false},
		{"over", job(func(j *batchv1.Job) { actors.FinishJob(&j.Status, true, metav1.Now()) }), false},
	} {
		if got := heldForIndex(c.job, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}); got != c.want {
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
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(1)
				create := func(o apiserver.Object) {
					if _, err := server.Do(apiserver.Write{By: By, Verb: apiserver.Create, Object: o}); err != nil {
						t.Fatal(err)
					}
				}
				j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "sum"}, Spec: JobSpec("flop:1")}
				j.Spec.ManagedBy = nil
				if c.edit != nil {
					c.edit(j)
				}
				create(j)
				j = apiserver.One[*batchv1.Job](server, metav1.NamespaceDefault, "sum")
				for range c.failures {
					p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "sum-", OwnerReferences: []metav1.OwnerReference{
						*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}}, Spec: Template("sum", "flop:1").Spec}
					create(p)
				}
				for _, p := range apiserver.All[*corev1.Pod](server) {
					if _, err := actors.Edit(server, By, p.Namespace, p.Name, "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(c.since)
				if got := unsettledJobs(server); len(got) != c.wrong {
					t.Errorf("%v", got)
				}
			})
		})
	}
}
