package cronjob

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// clock returns a time of January 1, 2026.
func clock(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05", "2026-01-01 "+text)
	if err != nil {
		panic(err)
	}
	return at
}

func metaTime(text string) *metav1.Time { return &metav1.Time{Time: clock(text)} }

type edit = func(*batchv1.CronJob)

// backup is a CronJob as a server would default it, created at 10:02:30, whose schedule is every five minutes in UTC.
func backup(edits ...edit) *batchv1.CronJob {
	c := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backup", UID: "uid-backup", CreationTimestamp: *metaTime("10:02:30")},
		Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *", TimeZone: ptr.To("UTC"), ConcurrencyPolicy: batchv1.AllowConcurrent, Suspend: ptr.To(false),
			SuccessfulJobsHistoryLimit: ptr.To[int32](3), FailedJobsHistoryLimit: ptr.To[int32](1),
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "backup"},
					Annotations: map[string]string{"team": "storage"}},
				Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2)},
			},
		},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func every(schedule string) edit { return func(c *batchv1.CronJob) { c.Spec.Schedule = schedule } }

func ranAt(at string) edit {
	return func(c *batchv1.CronJob) { c.Status.LastScheduleTime = metaTime(at) }
}

func succeededAt(at string) edit {
	return func(c *batchv1.CronJob) { c.Status.LastSuccessfulTime = metaTime(at) }
}

func deadline(seconds int64) edit {
	return func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &seconds }
}

func suspended(c *batchv1.CronJob) { c.Spec.Suspend = ptr.To(true) }

func dying(c *batchv1.CronJob) { c.DeletionTimestamp = metaTime("10:03:00") }

func concurrency(policy batchv1.ConcurrencyPolicy) edit {
	return func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = policy }
}

func limits(successful, failed *int32) edit {
	return func(c *batchv1.CronJob) {
		c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = successful, failed
	}
}

// lists puts Jobs into status.active.
func lists(jobs ...*batchv1.Job) edit {
	return func(c *batchv1.CronJob) {
		for _, job := range jobs {
			c.Status.Active = append(c.Status.Active, reference(job, job.UID, job.ResourceVersion))
		}
	}
}

// run is the unfinished Job of backup for a time.
func run(at string, edits ...func(*batchv1.Job)) *batchv1.Job {
	job := newJob(backup(), clock(at), zone{time.UTC})
	job.UID, job.ResourceVersion = types.UID("uid-"+job.Name), "7"
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func named(name string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Name, job.UID = name, types.UID("uid-"+name) }
}

func manual(job *batchv1.Job) {
	job.Annotations = map[string]string{manualAnnotation: "manual"}
}

func terminating(job *batchv1.Job) { job.DeletionTimestamp = metaTime("10:03:00") }

func started(at string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Status.StartTime = metaTime(at) }
}

func complete(at string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.CompletionTime = metaTime(at)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: "True"},
			{Type: batchv1.JobComplete, Status: "True"}}
	}
}

func failed(job *batchv1.Job) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
}

// see is a snapshot in the zone of the CronJob.
func see(c *batchv1.CronJob, jobs ...*batchv1.Job) snapshot {
	s := snapshot{CronJob: c, Jobs: jobs}
	var k caches
	zone, err := k.zone(c)
	if err != nil {
		s.ZoneError = err.Error()
	}
	s.Zone = zone
	return s
}

// stepsAt are the steps of the plan at a time.
func stepsAt(at string, s snapshot) []plan.Step {
	_, p := planJobs(clock(at), s)
	return p.Steps
}

// words are the steps of a plan as a person would tell them.
func words(steps []plan.Step) (all []string) {
	for _, step := range steps {
		switch step := step.(type) {
		case plan.Create:
			all = append(all, "create "+step.Object.GetName())
		case plan.Delete:
			for _, o := range step.Objects {
				all = append(all, "delete "+o.GetName())
			}
		case plan.Change:
			all = append(all, "status "+statusWords(step.New.(*batchv1.CronJob).Status))
		case plan.RecordEvent:
			all = append(all, step.Event.Type+" "+step.Event.Reason+": "+step.Event.Message)
		case plan.Each:
			for _, sequence := range step.Sequences {
				all = append(all, words(sequence)...)
			}
		}
	}
	return all
}

// statusWords are the active Jobs, and the times of the last schedule and success.
func statusWords(s batchv1.CronJobStatus) string {
	clockOf := func(t *metav1.Time) string {
		if t == nil {
			return "never"
		}
		return t.UTC().Format("15:04:05")
	}
	active := []string{}
	for _, ref := range s.Active {
		active = append(active, ref.Name)
	}
	return fmt.Sprintf("active %v, scheduled %s, successful %s", active, clockOf(s.LastScheduleTime), clockOf(s.LastSuccessfulTime))
}

// carriedOut is the outcome of a plan of which all was done.
func carriedOut(steps []plan.Step) (did plan.Outcome) {
	for _, step := range steps {
		switch step := step.(type) {
		case plan.Create:
			name := step.Object.GetName()
			did.Results = append(did.Results,
				plan.Result{Verb: plan.Created, Object: step.Object, Name: name, UID: types.UID("uid-" + name), Version: "7"})
		case plan.Delete:
			for _, o := range step.Objects {
				did.Results = append(did.Results, plan.Result{Verb: plan.Deleted, Object: o, Name: o.GetName()})
			}
		case plan.Each:
			for _, sequence := range step.Sequences {
				did.Results = append(did.Results, carriedOut(sequence).Results...)
			}
		}
	}
	return did
}
