package job

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What is deleted because the Job ends does not change how it ends, also if the process dies after the deletions, or it takes more than
// one reconcile to delete all pods (JOB-50, JOB-60).
func TestDeletionsDoNotChangeTheEnd(t *testing.T) {
	succeedAt0 := func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
	}
	for _, c := range []struct {
		name   string
		job    *batchv1.Job
		reason string
	}{
		{"success policy", sum(9, notStarted, byIndex, succeedAt0), batchv1.JobReasonSuccessPolicy},
		{"success policy, 501 pods are left", sum(502, notStarted, byIndex, succeedAt0), batchv1.JobReasonSuccessPolicy},
		{"success policy, a limit of 0 for each index", sum(9, notStarted, limitPerIndex(0), succeedAt0), batchv1.JobReasonSuccessPolicy},
		{"deadline", sum(9, notStarted, deadline(60)), batchv1.JobReasonDeadlineExceeded},
		{"deadline, 501 pods", sum(501, notStarted, deadline(60)), batchv1.JobReasonDeadlineExceeded},
		{"deadline, a limit of 0 for each index", sum(9, notStarted, limitPerIndex(0), deadline(60)), batchv1.JobReasonDeadlineExceeded},
	} {
		for _, crash := range []bool{false, true} {
			name := c.name
			if crash {
				name += ", the process dies after the deletions"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(c.job)
				w.settle()
				w.run()
				if c.job.Spec.SuccessPolicy != nil {
					w.end(w.podOfIndex("0"), corev1.PodSucceeded, 0)
				}
				w.Sleep(time.Minute)
				if crash {
					w.dieAfterDeletions()
					w.kill()
				}
				w.settle()
				w.kill()
				w.settle()
				var reasons []string
				for _, condition := range w.job().Status.Conditions {
					reasons = append(reasons, condition.Reason)
				}
				if want := c.reason + " " + c.reason; strings.Join(reasons, " ") != want {
					t.Errorf("it ends as %v, want %s", reasons, want)
				}
				if s := w.job().Status; c.job.Spec.SuccessPolicy != nil && s.Failed != 0 {
					t.Errorf("JOB-45: %d pods count as failed, which were only deleted because the Job has succeeded", s.Failed)
				}
				if lost := ptr.Deref(w.job().Status.FailedIndexes, ""); lost != "" {
					t.Errorf("failed indexes %q", lost)
				}
			})
		}
	}
}

// dieAfterDeletions reconciles until pods are deleted. The process dies before the next status is written.
func (w *world) dieAfterDeletions() {
	deleted := false
	w.Refuse = func(v plan.Verb, o plan.Object) error {
		deleted = deleted || v == plan.Deleted
		if _, ok := o.(*batchv1.Job); ok && deleted {
			return errDied
		}
		return nil
	}
	w.settle()
	w.Refuse = nil
}

func (w *world) podOfIndex(index string) string {
	for _, p := range w.running() {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index {
			return p.Name
		}
	}
	return ""
}
