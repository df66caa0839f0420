package job

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// end is how a Job ends: the interim condition that says so, and why. endOf makes it of what was observed,
// writtenEnd of a status. The zero end is none yet.
type end struct {
	interim         batchv1.JobConditionType
	reason, message string
}

// decided reports whether the Job ends.
func (e end) decided() bool { return e.interim != "" }

// failing reports whether it ends as failed.
func (e end) failing() bool { return e.interim == batchv1.JobFailureTarget }

// final is the condition that the Job gets when all pods are counted and gone.
func (e end) final() batchv1.JobConditionType {
	if e.failing() {
		return batchv1.JobFailed
	}
	return batchv1.JobComplete
}

// failure is an end as failed.
func failure(reason, message string) end { return end{batchv1.JobFailureTarget, reason, message} }

// endOf decides how the Job ends, if its pods, its deadline or an earlier decision say that it does: the first that
// holds (JOB-50..58). The decision is written before any pod is deleted for it. Else the deleted pods would look like
// failures, and another end would be decided.
func endOf(now time.Time, s view) end {
	if e := writtenEnd(s.Job); e.decided() {
		return e
	}
	if m := failJob(s); m.action != "" {
		return failure(batchv1.JobReasonPodFailurePolicy, m.message)
	}
	switch limit := int(ptr.Deref(s.Job.Spec.BackoffLimit, defaultBackoffLimit)); {
	case s.totalFailed() > limit, tooManyRestarts(s, limit):
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case untilDeadline(now, s) == 0:
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	if workloads.HasLimitPerIndex(s.Job) {
		failed := s.failedIndexes.count()
		if most := s.Job.Spec.MaxFailedIndexes; most != nil && failed > int(*most) {
			return failure(batchv1.JobReasonMaxFailedIndexesExceeded,
				"Job has exceeded the specified maximal number of failed indexes")
		}
		if failed > 0 && failed+s.completed.count() >= workloads.Completions(s.Job) {
			return failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
		}
	}
	if index, ok := metSuccessPolicy(s.Job, s.completed); ok {
		return end{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy,
			fmt.Sprintf("Matched rules at index %d", index)}
	}
	return end{}
}

// writtenEnd is the end in the status of the Job (JOB-50, JOB-51).
func writtenEnd(j *batchv1.Job) end {
	for _, t := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if workloads.HasJobCondition(j.Status, t) {
			c := workloads.JobCondition(j.Status, t)
			return end{t, c.Reason, c.Message}
		}
	}
	return end{}
}

// completionsReached decides whether the Job is complete because enough pods have succeeded and none is left (JOB-59).
func completionsReached(s view, active int) end {
	succeeded := s.totalSucceeded(s.Job)
	if active > 0 || s.Job.Spec.Completions == nil && succeeded == 0 || succeeded < workloads.Completions(s.Job) {
		return end{}
	}
	return end{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
		"Reached expected number of succeeded pods"}
}

// defaultBackoffLimit is that of the API server.
const defaultBackoffLimit = 6

// tooManyRestarts reports whether the kubelet has restarted the containers of the pods too often (JOB-54).
func tooManyRestarts(s view, limit int) bool {
	if s.Job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	sum := 0
	for _, p := range s.mine {
		if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses,
			p.Status.ContainerStatuses} {
			for _, c := range statuses {
				sum += int(c.RestartCount)
			}
		}
	}
	return sum > 0 && sum >= limit
}

// never is longer than any Job may be active.
const never = time.Duration(1<<63 - 1)

// untilDeadline returns how much longer the Job may be active (JOB-55). It is never negative. What has passed since
// this process has seen that the Job has begun is measured by the monotonic clock.
func untilDeadline(now time.Time, s view) time.Duration {
	j := s.Job
	seconds := j.Spec.ActiveDeadlineSeconds
	switch {
	case seconds == nil || workloads.Suspended(j):
		return never
	case j.Status.StartTime != nil && !workloads.HasJobCondition(j.Status, batchv1.JobSuspended):
	case *seconds <= 0: // it is about to begin (JOB-15), or to go on, and that is its end
		return 0
	default:
		return never // the start time of a Job that is about to be resumed will be set anew (JOB-81)
	}
	end := j.Status.StartTime.Add(workloads.Seconds(*seconds))
	if m := s.Remembered; m != nil && m.Start.Equal(j.Status.StartTime.Time) {
		end = plan.SeenAt(end, m.Seen)
	}
	return max(0, end.Sub(now))
}
