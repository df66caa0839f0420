package ttlafterfinished

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a finished Job with a time to live. Observe fills it; planDeletion, the log and the metric read
// it. The object belongs to a shared cache.
type snapshot struct {
	Job    *batchv1.Job
	Logged bool // the log has said what is doubtful about the time at which it has finished
}

// memory is what the log has said about the time at which a Job has finished. Observe makes it, and compares
// it with the one before.
type memory struct {
	UID    types.UID
	Logged string
}

// longestWait is after how long a Job that waits is looked at again, so that the timers of Jobs that are deleted
// before their time do not add up.
const longestWait = time.Hour

// planDeletion deletes a Job whose time to live is over. The preconditions are its uid and its version, so that a Job
// that has changed meanwhile is looked at again and not deleted (TTL-26, TTL-27, TTL-34).
func planDeletion(now time.Time, s snapshot) plan.Plan {
	if s.Job == nil || !candidate(s.Job) {
		return plan.Plan{Why: "the Job has not finished, has no time to live, or is being deleted"}
	}
	end, ok := expiry(s.Job)
	switch {
	case !ok:
		return plan.Plan{Why: "the Job does not say when it has finished"}
	case end.After(now):
		return plan.Plan{Why: "the time to live ends at " + end.UTC().Format(time.RFC3339),
			Requeue: min(end.Sub(now), longestWait)}
	}
	why := fmt.Sprintf("its time to live of %ds after it has finished is over", *s.Job.Spec.TTLSecondsAfterFinished)
	return plan.Plan{
		Why: "delete the Job: " + why,
		Steps: []plan.Step{plan.Delete{
			Objects: []plan.Object{s.Job}, Propagation: metav1.DeletePropagationForeground,
			CheckVersion: true, Why: why,
		}},
	}
}

// candidate reports whether a Job is to be deleted some time (TTL-21).
func candidate(job *batchv1.Job) bool {
	return job.Spec.TTLSecondsAfterFinished != nil && job.DeletionTimestamp == nil && workloads.JobFinished(job) != nil
}

// doubtful returns what is doubtful about the time at which a candidate has finished; empty if nothing is.
func doubtful(now time.Time, job *batchv1.Job) string {
	switch at, ok := finishedAt(job); {
	case !ok:
		return "A Job stays although it has a time to live, because it does not say when it has finished"
	case at.After(now):
		return "A Job has finished in the future, so the clocks of two machines differ"
	}
	return ""
}

// finishedAt returns when a Job has finished; false if it does not say (TTL-23, TTL-37).
func finishedAt(job *batchv1.Job) (time.Time, bool) {
	if at := workloads.JobFinished(job).LastTransitionTime; !at.IsZero() {
		return at.Time, true
	}
	if at := job.Status.CompletionTime; !at.IsZero() {
		return at.Time, true
	}
	return time.Time{}, false
}

// expiry returns when the time to live of a candidate is over; false if that is not known.
func expiry(job *batchv1.Job) (time.Time, bool) {
	at, ok := finishedAt(job)
	return at.Add(workloads.Seconds(*job.Spec.TTLSecondsAfterFinished)), ok
}
