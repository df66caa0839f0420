package integration

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// createJob makes a Job of so many pods, all at a time, which run until the test ends them.
func (b *bench) createJob(name string, pods int32, edits ...func(*batchv1.Job)) {
	b.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Completions: &pods, Parallelism: &pods}}
	j.Spec.Template.Annotations = map[string]string{cluster.NeverReady: "true"}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sum", Image: "sum:1"}}
	for _, edit := range edits {
		edit(j)
	}
	if _, err := b.Client.BatchV1().Jobs(b.ns).Create(b.Context(), j, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) job(name string) *batchv1.Job {
	b.Helper()
	j, err := b.Client.BatchV1().Jobs(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// waitJob waits until the Job's status is as it should be.
func (b *bench) waitJob(name, what string, is func(batchv1.JobStatus) bool) {
	b.Helper()
	b.wait(name+" "+what, func() error {
		if s := b.job(name).Status; !is(s) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func jobIs(s batchv1.JobStatus, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

func over(t batchv1.JobConditionType) func(batchv1.JobStatus) bool {
	return func(s batchv1.JobStatus) bool { return jobIs(s, t) }
}

func running(n int32) func(batchv1.JobStatus) bool {
	return func(s batchv1.JobStatus) bool { return s.Active == n }
}

// podsOfJob waits until n pods of a Job run, and returns them.
func (b *bench) podsOfJob(name string, n int) (pods []corev1.Pod) {
	b.Helper()
	b.wait(fmt.Sprintf("%d pods of %s run", n, name), func() error {
		pods = nil
		list, err := b.Client.CoreV1().Pods(b.ns).List(b.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				pods = append(pods, p)
			}
		}
		if len(pods) != n {
			return fmt.Errorf("%d do", len(pods))
		}
		return nil
	})
	return pods
}

// endPod ends a pod as a kubelet does.
func (b *bench) endPod(p corev1.Pod, phase corev1.PodPhase) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, p.UID, phase)
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(b.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		b.Fatal(err)
	}
}

// untrackedAll waits until no pod of the Job has the finalizer.
func (b *bench) untrackedAll(name string) {
	b.Helper()
	b.wait("no pod of "+name+" has the finalizer", func() error {
		list, err := b.Client.CoreV1().Pods(b.ns).List(b.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
				return fmt.Errorf("%s has it", p.Name)
			}
		}
		return nil
	})
}

func TestJobs(t *testing.T) {
	b := share(t)
	t.Run("JOB-114 a Job of two pods is complete", func(t *testing.T) {
		b.createJob("two", 2)
		b.waitJob("two", "has its pods", running(2))
		for _, p := range b.podsOfJob("two", 2) {
			b.endPod(p, corev1.PodSucceeded)
		}
		b.waitJob("two", "is complete", over(batchv1.JobComplete))
		b.untrackedAll("two")
		s := b.job("two").Status
		if s.Succeeded != 2 || s.Failed != 0 || s.CompletionTime == nil || !jobIs(s, batchv1.JobSuccessCriteriaMet) {
			t.Errorf("%+v", s)
		}
	})
	t.Run("JOB-53 a Job that fails too often has failed", func(t *testing.T) {
		b.createJob("fails", 2, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) })
		b.waitJob("fails", "has its pods", running(2))
		b.endPod(b.podsOfJob("fails", 2)[0], corev1.PodFailed)
		b.waitJob("fails", "has failed", over(batchv1.JobFailed))
		if s := b.job("fails").Status; s.Failed != 2 || !jobIs(s, batchv1.JobFailureTarget) {
			t.Errorf("JOB-45: the other pod counts as failed, too: %+v", s)
		}
	})
	t.Run("JOB-80 a Job is suspended and resumed", func(t *testing.T) {
		b.createJob("rests", 2)
		b.waitJob("rests", "has its pods", running(2))
		suspend := func(to bool) {
			_, err := b.Client.BatchV1().Jobs(b.ns).Patch(t.Context(), "rests", types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, to), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		suspend(true)
		b.waitJob("rests", "is suspended", func(s batchv1.JobStatus) bool {
			return jobIs(s, batchv1.JobSuspended) && s.Active == 0 && s.StartTime == nil && s.Failed == 0
		})
		suspend(false)
		b.waitJob("rests", "runs again", func(s batchv1.JobStatus) bool {
			return running(2)(s) && !jobIs(s, batchv1.JobSuspended) && s.StartTime != nil
		})
	})
	t.Run("JOB-69 an Indexed Job is shrunk", func(t *testing.T) {
		b.createJob("indexed", 3, func(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) })
		b.waitJob("indexed", "has its pods", running(3))
		for _, p := range b.podsOfJob("indexed", 3) {
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] != "1" {
				b.endPod(p, corev1.PodSucceeded)
			}
		}
		b.waitJob("indexed", "has completed two", func(s batchv1.JobStatus) bool { return s.CompletedIndexes == "0,2" && s.Succeeded == 2 })
		_, err := b.Client.BatchV1().Jobs(b.ns).Patch(t.Context(), "indexed", types.MergePatchType,
			[]byte(`{"spec":{"completions":1,"parallelism":1}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.waitJob("indexed", "is complete (JOB-71)", func(s batchv1.JobStatus) bool {
			return jobIs(s, batchv1.JobComplete) && s.CompletedIndexes == "0" && s.Succeeded == 1
		})
	})
	t.Run("JOB-55 a Job whose deadline is over has failed", func(t *testing.T) {
		b.createJob("late", 1, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](2) })
		b.waitJob("late", "has failed", over(batchv1.JobFailed))
		if c := b.job("late").Status.Conditions; c[len(c)-1].Reason != batchv1.JobReasonDeadlineExceeded {
			t.Errorf("%+v", c)
		}
	})
	t.Run("JOB-6 pods of a Job that is deleted keep no finalizer", func(t *testing.T) {
		b.createJob("gone", 2)
		b.waitJob("gone", "has its pods", running(2))
		orphans := metav1.DeletePropagationOrphan
		if err := b.Client.BatchV1().Jobs(b.ns).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: &orphans}); err != nil {
			t.Fatal(err)
		}
		b.untrackedAll("gone")
	})
}
