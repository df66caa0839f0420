package cronjob

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// shortLived is the time to live of finished Jobs below which the status does not wait. If such a Job is gone, only the
// status shows that it has run.
const shortLived = 5 * time.Minute

// reportStatus writes which Jobs are active, and when the last ones were scheduled and successful.
func reportStatus(now time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	if s.CronJob == nil {
		return plan.Plan{}
	}
	next := d.requeue(now) // a run does not wait until what was refused is tried again (CJ-61)
	after := *s.CronJob    // its parts belong to the cache: they are replaced, not changed
	c := &after
	c.Status.Active = s.activeAfter(did)
	ran := d.Ran
	if job := createdJob(did); job != nil {
		at, _ := scheduledTime(c, job)
		ran = workloads.Later(ran, at)
	}
	success := timeOf(c.Status.LastSuccessfulTime)
	for _, job := range s.Jobs {
		success = workloads.Later(success, completedAt(job))
	}
	c.Status.LastScheduleTime = raised(c.Status.LastScheduleTime, ran)
	c.Status.LastSuccessfulTime = raised(c.Status.LastSuccessfulTime, success)
	if equality.Semantic.DeepEqual(s.CronJob.Status, c.Status) {
		return plan.Plan{Requeue: next}
	}
	p := plan.Plan{Requeue: next, Steps: []plan.Step{plan.Change{Old: s.CronJob, New: c, Subresource: plan.Status,
		Why: "the status has changed"}}}
	for _, event := range s.endings() {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: s.CronJob, Event: event})
	}
	p.When = s.when(c)
	return p
}

// when says how long the status of a CronJob waits. It should not name for long what was deleted.
func (s snapshot) when(c *batchv1.CronJob) plan.When {
	listed := s.listed()
	starts := func(ref corev1.ObjectReference) bool { return !listed[ref.UID] }
	ttl := c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished
	switch {
	case c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent,
		ttl != nil && workloads.Seconds(*ttl) < shortLived:
		return plan.Now()
	case slices.ContainsFunc(c.Status.Active, starts):
		return plan.NextTurn()
	}
	return plan.Shortly()
}

// raised returns a time of the status, later if it is to be later.
func raised(before *metav1.Time, t time.Time) *metav1.Time {
	if !t.After(timeOf(before)) {
		return before
	}
	return &metav1.Time{Time: t}
}

// activeAfter returns status.active as it should be, old entries in their order first.
func (s snapshot) activeAfter(did plan.Outcome) (refs []corev1.ObjectReference) {
	active, _ := s.active()
	created := createdJob(did)
	if created != nil && s.CronJob.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
		active = nil // the new Job takes the place of all others
	}
	left := map[types.UID]*batchv1.Job{}
	for _, job := range active {
		left[job.UID] = job
	}
	for _, r := range did.Results {
		if r.Verb == plan.Deleted && r.Err == nil {
			delete(left, r.Object.GetUID())
		}
	}
	for _, ref := range s.CronJob.Status.Active {
		if left[ref.UID] != nil {
			refs = append(refs, ref)
			delete(left, ref.UID)
		}
	}
	for _, job := range active {
		if left[job.UID] != nil { // it was created, and that could not be noted (CJ-53)
			refs = append(refs, reference(job, job.UID, job.ResourceVersion))
			delete(left, job.UID)
		}
	}
	for _, r := range did.Results {
		if r.Verb == plan.Created && r.Err == nil {
			refs = append(refs, reference(created, r.UID, r.Version))
		}
	}
	return refs
}

// reference is how status.active names a Job (CJ-52).
func reference(job *batchv1.Job, uid types.UID, version string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Namespace: job.Namespace, Name: job.Name, UID: uid, ResourceVersion: version,
	}
}

// createdJob returns the Job that was created, nil if none was.
func createdJob(did plan.Outcome) *batchv1.Job {
	for _, r := range did.Results {
		if job, ok := r.Object.(*batchv1.Job); ok && r.Verb == plan.Created && r.Err == nil {
			return job
		}
	}
	return nil
}

// endings are the events about Jobs that are no longer active (CJ-14, CJ-16).
func (s snapshot) endings() (events []plan.Event) {
	jobs := slices.Clone(s.Jobs)
	slices.SortFunc(jobs, byName)
	listed := s.listed()
	for _, job := range jobs {
		at, _ := scheduledTime(s.CronJob, job)
		condition := workloads.JobFinished(job)
		if condition != nil && (listed[job.UID] || at.After(timeOf(s.CronJob.Status.LastScheduleTime))) {
			events = append(events, plan.Event{
				Type: corev1.EventTypeNormal, Reason: "SawCompletedJob",
				Message: "Saw completed job: " + job.Name + ", condition: " + string(condition.Type),
			})
		}
	}
	for _, ref := range s.Missing {
		events = append(events,
			plan.Event{Type: corev1.EventTypeNormal, Reason: "MissingJob",
				Message: "Active job went missing: " + ref.Name})
	}
	return events
}
