package why

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// jobCondition returns a condition that is true; nil if it is not.
func jobCondition(j *batchv1.Job, t batchv1.JobConditionType) *batchv1.JobCondition {
	return first(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

func (w *world) job(ctx context.Context, j *batchv1.Job) *verdict {
	if jobCondition(j, batchv1.JobComplete) != nil {
		return fine(j, "it is complete")
	}
	pods := w.podsOf(ctx, j, j.Spec.Selector)
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobFailureTarget} {
		if c := jobCondition(j, t); c != nil {
			v := fails(j, c.Reason, "it has failed: %s", c.Message)
			if c.Reason == batchv1.JobReasonDeadlineExceeded { // whatever its pods did
				return v
			}
			return v.through(w.lastFailed(ctx, pods))
		}
	}
	if ptr.Deref(j.Spec.Suspend, false) {
		return waits(j, "Suspended", "it is suspended (spec.suspend)").until("somebody, or a queue, resumes it")
	}
	s := j.Status
	v := waits(j, "Running", "%d of %d pods have succeeded, %d run, %d have failed", s.Succeeded,
		ptr.Deref(j.Spec.Completions, 1),
		s.Active, s.Failed)
	if below := w.worst(ctx, slices.DeleteFunc(slices.Clone(pods), podutil.Finished)); below != nil {
		return v.through(below)
	}
	if message := w.failedCreate(ctx, j, j.Spec.Selector); message != "" &&
		s.Active < ptr.Deref(j.Spec.Parallelism, 1) {
		return v.through(w.refused(ctx, j, message))
	}
	if s.Failed > 0 && s.Active == 0 { // else another one has taken its place
		return v.through(w.lastFailed(ctx, pods))
	}
	if s.StartTime == nil {
		return v.through(w.leader(ctx))
	}
	return v.moves()
}

// lastFailed is a verdict on the pod that has failed last; nil if none is left.
func (w *world) lastFailed(ctx context.Context, pods []*corev1.Pod) *verdict {
	var last *corev1.Pod
	for _, p := range pods {
		if p.Status.Phase == corev1.PodFailed && (last == nil || last.CreationTimestamp.Before(&p.CreationTimestamp)) {
			last = p
		}
	}
	if last == nil {
		return nil
	}
	return w.failedPod(ctx, last)
}

func (w *world) cronJob(ctx context.Context, c *batchv1.CronJob) *verdict {
	var own []*batchv1.Job
	for _, j := range list[*batchv1.Job](ctx, w, c.Namespace, nil) {
		if metav1.IsControlledBy(j, c) {
			own = append(own, j)
		}
	}
	slices.SortFunc(own, func(a, b *batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	if ptr.Deref(c.Spec.Suspend, false) {
		return fails(c, "Suspended",
			"it is suspended (spec.suspend): no Job is made").until("somebody sets spec.suspend to false")
	}
	if v := w.noJob(ctx, c, own); v != nil {
		return v
	}
	if w.unlisted(client.KindFor[*batchv1.Job](), c.Namespace) {
		return waits(c, "JobsUnread", "its Jobs could not be read").inferred()
	}
	if len(own) == 0 {
		return fine(c, "no Job was due yet on schedule %q", c.Spec.Schedule)
	}
	below := w.explain(ctx, own[0])
	if below == nil || below.state == AsWanted {
		return fine(c, "its last Job %s is complete", own[0].Name)
	}
	says := fmt.Sprintf("its last Job is %s", own[0].Name)
	if len(c.Status.Active) > 0 && c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		says += ", and no other one is made before it is over (concurrencyPolicy Forbid)"
	}
	return waits(c, "JobActive", "%s", says).through(below)
}

// noJob is a verdict on a CronJob that makes no Jobs; nil if the last thing that is known of it is a Job.
func (w *world) noJob(ctx context.Context, c *batchv1.CronJob, own []*batchv1.Job) *verdict {
	e := withReason(w.warnings(ctx, c), "FailedCreate", "UnparseableSchedule", "UnknownTimeZone", "InvalidSchedule",
		"FailedNeedsStart", "MissSchedule", "TooManyMissedTimes")
	if e == nil {
		return nil
	}
	at := timeOf(e).Truncate(time.Second) // as objects have it
	made := len(own) > 0 && !own[0].CreationTimestamp.Time.Before(at)
	if s := c.Status.LastScheduleTime; made || s != nil && !s.Time.Before(at) && len(own) > 0 {
		return nil
	}
	v := fails(c, e.Reason, "no Job is made on schedule %q", c.Spec.Schedule)
	if e.Reason == "FailedCreate" {
		return v.through(w.refused(ctx, c, e.Message))
	}
	return v.adding(e.Message)
}
