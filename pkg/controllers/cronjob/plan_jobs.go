package cronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

// manualAnnotation is "manual" on Jobs that users made of the CronJob's template (CJ-55).
const manualAnnotation = "cronjob.kubernetes.io/instantiate"

// jobName is the name of the Job for a time of the schedule (CJ-50).
func jobName(c *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", c.Name, at.Unix()/60)
}

// cutMinutes returns the name of the CronJob whose Job for a time has this name, and the time in minutes.
func cutMinutes(job string) (cronJob string, minutes int64, ok bool) {
	i := max(0, strings.LastIndexByte(job, '-'))
	minutes, err := strconv.ParseInt(strings.TrimPrefix(job[i:], "-"), 10, 32)
	return job[:i], minutes, i > 0 && err == nil && minutes >= 0
}

// newJob is the Job for a time of the schedule (CJ-51).
func newJob(c *batchv1.CronJob, at time.Time, in zone) *batchv1.Job {
	template := c.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c, at), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, kind())},
		},
		Spec: template.Spec,
	}
	if c.Spec.TimeZone == nil || namesZone(c.Spec.Schedule) {
		in.Location = time.UTC
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, batchv1.CronJobScheduledTimestampAnnotation,
		at.In(in.Location).Format(time.RFC3339))
	return job
}

// scheduledTime returns the time of the schedule for which a Job was created; false if it was not created by a
// schedule.
func scheduledTime(c *batchv1.CronJob, job *batchv1.Job) (time.Time, bool) {
	name, minutes, ok := cutMinutes(job.Name)
	if !ok || name != c.Name || job.Annotations[manualAnnotation] == "manual" {
		return time.Time{}, false
	}
	// The name has only minutes, and "@every" any seconds.
	if at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil &&
		at.Unix()/60 == minutes {
		return at, true
	}
	return time.Unix(minutes*60, 0), true
}

// alike reports whether two versions of a Job are the same for its CronJob.
func alike(a, b *batchv1.Job) bool {
	return a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && outcome(a) == outcome(b) &&
		compareStarts(a.Status.StartTime, b.Status.StartTime) == 0 && completedAt(a).Equal(completedAt(b)) &&
		sameAnnotation(a, b, manualAnnotation) &&
		sameAnnotation(a, b, batchv1.CronJobScheduledTimestampAnnotation) &&
		equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b))
}

func sameAnnotation(a, b *batchv1.Job, name string) bool {
	return a.Annotations[name] == b.Annotations[name]
}

// outcome returns the type of the condition by which a Job has finished; empty if it has not.
func outcome(job *batchv1.Job) batchv1.JobConditionType {
	if condition := workloads.JobFinished(job); condition != nil {
		return condition.Type
	}
	return ""
}

// completedAt returns when a Job was completed; zero if it was not, or does not say (CJ-101).
func completedAt(job *batchv1.Job) time.Time {
	if condition := workloads.JobFinished(job); condition == nil || condition.Type != batchv1.JobComplete ||
		job.Status.CompletionTime == nil {
		return time.Time{}
	}
	return job.Status.CompletionTime.Time
}

// listed are the Jobs in status.active.
func (s snapshot) listed() map[types.UID]bool {
	uids := make(map[types.UID]bool, len(s.CronJob.Status.Active))
	for _, ref := range s.CronJob.Status.Active {
		uids[ref.UID] = true
	}
	return uids
}

// active are the unfinished Jobs that count for the concurrency policy (CJ-43), by name: those in status.active, and
// those of the schedule that could not be noted there. The others are those that users have started (CJ-13).
func (s snapshot) active() (active, others []*batchv1.Job) {
	listed := s.listed()
	for _, job := range s.Jobs {
		_, scheduled := scheduledTime(s.CronJob, job)
		switch {
		case workloads.JobFinished(job) != nil:
		case listed[job.UID], scheduled && job.DeletionTimestamp == nil:
			active = append(active, job)
		case job.DeletionTimestamp == nil:
			others = append(others, job)
		}
	}
	slices.SortFunc(active, byName)
	slices.SortFunc(others, byName)
	return active, others
}

// byName orders Jobs, so that what is decided does not depend on the order of a cache.
func byName(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) }

// recorded reports whether the status has all that there is to know of a finished Job. Only then it may go: otherwise
// its run could be started once more.
func (s snapshot) recorded(job *batchv1.Job, listed map[types.UID]bool) bool {
	at, _ := scheduledTime(s.CronJob, job)
	status := s.CronJob.Status
	return !listed[job.UID] && !at.After(timeOf(status.LastScheduleTime)) &&
		!completedAt(job).After(timeOf(status.LastSuccessfulTime))
}

// surplus are the finished Jobs beyond the history limits, the oldest (CJ-60).
func (s snapshot) surplus() (jobs []*batchv1.Job) {
	byOutcome := map[batchv1.JobConditionType][]*batchv1.Job{}
	for _, job := range s.Jobs {
		if condition := workloads.JobFinished(job); condition != nil && job.DeletionTimestamp == nil {
			byOutcome[condition.Type] = append(byOutcome[condition.Type], job)
		}
	}
	listed := s.listed()
	jobs = append(jobs, beyond(s.CronJob.Spec.SuccessfulJobsHistoryLimit, byOutcome[batchv1.JobComplete])...)
	jobs = append(jobs, beyond(s.CronJob.Spec.FailedJobsHistoryLimit, byOutcome[batchv1.JobFailed])...)
	return slices.DeleteFunc(jobs, func(job *batchv1.Job) bool { return !s.recorded(job, listed) })
}

// beyond returns the oldest Jobs beyond a limit; nil stands for none.
func beyond(limit *int32, jobs []*batchv1.Job) []*batchv1.Job {
	if limit == nil {
		return nil
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(compareStarts(a.Status.StartTime, b.Status.StartTime), byName(a, b))
	})
	return jobs[:max(0, len(jobs)-max(0, int(*limit)))]
}

// compareStarts compares times of which a missing one is the latest.
func compareStarts(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

// timeOf returns a time that may be missing; zero if it is.
func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
