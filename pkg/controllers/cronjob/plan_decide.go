package cronjob

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a CronJob with its Jobs and its time zone, as one reconcile has observed them. Observe fills
// it; planJobs and reportStatus read it. The objects belong to shared caches.
type snapshot struct {
	CronJob   *batchv1.CronJob
	Jobs      []*batchv1.Job           // that it controls, in any order
	Missing   []corev1.ObjectReference // Jobs of status.active that are gone
	Others    []*batchv1.Job           // that it does not control, and that have names like its own
	Zone      zone                     // of the schedule
	ZoneError string                   // why there is none
	Memory    memory                   // of the reconcile before
}

// memory is what is remembered of a CronJob: what its status does not say about times that were seen. The
// function remember makes it of the decision and the outcome, and decide reads it.
type memory struct {
	Schedule string // and time zone; empty if nothing is remembered
	// times up to this one are not made up for: then the schedule was changed, or had a Job of the same minute
	Since    time.Time
	Ran      time.Time // the latest time of the schedule for which there was a Job
	Reported []string  // the states of the warnings that were given and still stand
}

// remember returns what is to be remembered when that has become of the plan for a snapshot. A step that has failed,
// such as a deletion for the history limits, changes nothing about the schedule that was seen and the warnings that
// were given.
func remember(_ time.Time, s snapshot, d decision, did plan.Outcome) *memory {
	m := &memory{Schedule: scheduleOf(s.CronJob), Since: d.Since, Ran: d.Ran}
	if createdJob(did) != nil {
		m.Ran = workloads.Later(m.Ran, d.Run)
	}
	for _, w := range d.Warnings {
		m.Reported = append(m.Reported, w.State)
	}
	return m
}

// scheduleOf is by what a changed schedule is noticed: its text and its time zone.
func scheduleOf(c *batchv1.CronJob) string {
	if c.Spec.TimeZone == nil {
		return c.Spec.Schedule
	}
	return c.Spec.Schedule + " " + *c.Spec.TimeZone
}

// validSince returns the time up to which nothing is made up for: that of the change of the schedule, as what it
// would have brought before is not (CJ-94); zero if there is none.
func (s snapshot) validSince(now time.Time) time.Time {
	if s.Memory.Schedule == "" || s.Memory.Schedule == scheduleOf(s.CronJob) {
		return s.Memory.Since
	}
	return now
}

// ran returns the latest time for which there was a Job, as far as is known.
func (s snapshot) ran(now time.Time) time.Time {
	latest := workloads.Later(timeOf(s.CronJob.Status.LastScheduleTime), s.Memory.Ran)
	for _, job := range s.Jobs {
		if at, ok := scheduledTime(s.CronJob, job); ok && !at.After(now) {
			latest = workloads.Later(latest, at)
		}
	}
	return latest
}

// warning is an event about a state that lasts. It is recorded when the state begins.
type warning struct {
	State string // distinguishes states for which the reason is the same
	plan.Event
}

// decision says what is to become of a CronJob now. Planning makes it of a snapshot; the report and the memory rest on
// it.
type decision struct {
	Ran   time.Time // the latest time for which there was a Job, as far as is known
	Since time.Time // up to this one, nothing is made up for from now on (CJ-94)
	Due   time.Time // the latest time of the schedule for which there was no Job; zero if there is none
	Run   time.Time // the same, if its Job is to be created now
	Next  time.Time // when the schedule brings something again; zero if never
	// Why says in words what was decided, for the explanation.
	Why string
	// Warnings are the states that are worth one now, whether or not there was one before.
	Warnings []warning
}

// warn adds an event. Its key distinguishes states for which the reason is the same, such as two dates that
// were missed.
func (d *decision) warn(key, kind, reason, format string, args ...any) {
	d.Warnings = append(d.Warnings,
		warning{reason + " " + key, plan.Event{Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}})
}

// decide decides in the order of CJ-17..24.
func decide(now time.Time, s snapshot) decision {
	c, d := s.CronJob, decision{Ran: s.ran(now), Since: s.validSince(now)}
	active, others := s.active()
	for _, job := range others {
		d.warn(job.Name, corev1.EventTypeWarning, "UnexpectedJob",
			"Saw a job that the controller did not create or forgot: %s", job.Name)
	}
	if c.DeletionTimestamp != nil {
		d.Why = "the CronJob is being deleted"
		return d
	}
	if s.ZoneError != "" {
		d.Why = "the time zone is unknown: " + s.ZoneError
		name := ptr.Deref(c.Spec.TimeZone, "")
		d.warn(name, corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", name, s.ZoneError)
		return d
	}
	if ptr.Deref(c.Spec.Suspend, false) {
		d.Why = "the CronJob is suspended"
		return d
	}
	if s.schedule(now, &d); d.Due.IsZero() {
		return d
	}
	at, taken, created := fmt.Sprint(d.Due.Unix()), s.taken(d.Due), s.created(d.Ran, d.Due)
	if created {
		d.Since = workloads.Later(d.Since, d.Due)
	}
	switch {
	case s.tooLate(now, d.Due):
		d.Why = "the time " + d.Due.UTC().Format(time.RFC3339) + " was missed"
		d.warn(at, corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s",
			d.Due.UTC().Format(time.RFC1123Z))
	case created: // of another time in the same minute (CJ-34)
		d.Why = "there was a Job of that minute"
	case taken:
		d.Why = "the name of the Job is taken"
		d.warn(at, corev1.EventTypeWarning, "FailedCreate",
			"Error creating job: %s exists, and this CronJob does not control it", jobName(c, d.Due))
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 0:
		d.Why = fmt.Sprintf("%s is running and the concurrency policy is Forbid", active[0].Name)
		d.warn(at, corev1.EventTypeNormal, "JobAlreadyActive",
			"Not starting job because prior execution is running and concurrency policy is Forbid")
	default:
		d.Why = "create the Job for " + d.Due.UTC().Format(time.RFC3339)
		d.Run = d.Due
	}
	return d
}

// schedule finds out what is due, and what is next.
func (s snapshot) schedule(now time.Time, d *decision) {
	c := s.CronJob
	text := c.Spec.Schedule
	schedule, err := parse(text, s.Zone)
	if err != nil {
		d.Why = "the schedule cannot be parsed: " + err.Error()
		d.warn(text, corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", text, err)
		return
	}
	if namesZone(text) {
		d.warn(text, corev1.EventTypeWarning, "UnsupportedSchedule",
			"CRON_TZ or TZ used in schedule %q is not officially supported, "+
				"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", text)
	}
	since := d.Ran
	if since.IsZero() {
		since = c.CreationTimestamp.Time
	}
	since = workloads.Later(since, d.Since).In(s.Zone.Location)
	due, next := latest(schedule, since, now)
	if next.IsZero() {
		d.Why = "no time within five years matches the schedule"
		d.warn(text, corev1.EventTypeWarning, "InvalidSchedule",
			"invalid schedule: %s : no time within five years matches", text)
		return
	}
	d.Due, d.Next = due, next
	d.Why = "wait until " + next.UTC().Format(time.RFC3339)
	if !due.IsZero() && missed(schedule, workloads.Later(since, now.Add(-s.deadline())), now) > tooMany {
		d.warn(fmt.Sprint(due.Unix()), corev1.EventTypeWarning, "TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
}

// tooMany missed times are worth a warning (CJ-32).
const tooMany = 100

// missed estimates how many times a schedule has between since and now, from the first two (CJ-32).
func missed(s cron.Schedule, since, now time.Time) int {
	first := following(s, since)
	if first.IsZero() || first.After(now) {
		return 0
	}
	second := following(s, first)
	if second.IsZero() {
		return 1
	}
	return int(now.Sub(first)/second.Sub(first)) + 1
}

// deadline is how late a Job may be created (CJ-97).
func (s snapshot) deadline() time.Duration {
	seconds := s.CronJob.Spec.StartingDeadlineSeconds
	if seconds == nil {
		return oldest
	}
	return min(max(0, workloads.Seconds(*seconds)), oldest)
}

// tooLate reports whether a time of the schedule is before the deadline (CJ-22, CJ-31).
func (s snapshot) tooLate(now, due time.Time) bool {
	return s.CronJob.Spec.StartingDeadlineSeconds != nil && !due.After(now.Add(-s.deadline()))
}

// created reports whether the CronJob has, or had, the Job of a time; ran is the latest one for which it had one.
func (s snapshot) created(ran, due time.Time) bool {
	name := jobName(s.CronJob, due)
	return !ran.IsZero() && jobName(s.CronJob, ran) == name || contains(s.Jobs, name)
}

// taken reports whether a Job that is not the CronJob's has the name of the one for a time.
func (s snapshot) taken(due time.Time) bool { return contains(s.Others, jobName(s.CronJob, due)) }

func contains(jobs []*batchv1.Job, name string) bool {
	return slices.ContainsFunc(jobs, func(job *batchv1.Job) bool { return job.Name == name })
}

// clockSkew is how much later than its time a Job is created, so that the clock of no other component is before the
// time (CJ-30).
const clockSkew = 100 * time.Millisecond

// requeue is how long there is nothing to do; zero waits for an event (CJ-4, CJ-6).
func (d decision) requeue(now time.Time) time.Duration {
	if d.Next.IsZero() {
		return 0
	}
	return min(d.Next.Sub(now), math.MaxInt64-clockSkew) + clockSkew
}
