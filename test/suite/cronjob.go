package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func cronJobEntry() Entry {
	return Entry{
		Controller: "cronjob-controller",
		Operations: map[string]Operation{
			// NAME minutes= policy= image= history= deadline=: a CronJob; again: changes it; suspend=; delete=true; * for all
			"cron": cron,
			"run":  cronRuns, // NAME n= do=delete: a Job of a CronJob
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(3) == 0 {
				g.Add(g.Early(), "cron cron-%s minutes=1 policy=%s image=%s:1 history=%d%s", app,
					workload.Pick(g, "Allow", "Forbid", "Replace"),
					workload.Pick(g, "good", "slow", "bad", "failing"), g.IntN(3), workload.Pick(g, "", " deadline=30"))
			}
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "cron cron-%s %s", app, workload.Pick(g, "minutes=1", "minutes=2", "suspend=true", "delete=true", "history=0"))
			g.Add(soon, workload.Pick(g, "cron cron-%s suspend=false", "run cron-%s do=delete"), app)
		}}, {Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) { // some minutes of one
			g.Add(at, "cron runs-%s minutes=%d policy=%s image=%s:1 history=%d%s", app, 1+g.IntN(2),
				workload.Pick(g, "Allow", "Forbid", "Replace"),
				workload.Pick(g, "good", "good", "bad", "slow"), g.IntN(3), workload.Pick(g, "", " deadline=10"))
			if g.IntN(3) == 0 {
				g.Add(soon+30*time.Second, "fault m0 stop back=%ds", 30+g.IntN(40))
			}
			if g.IntN(2) == 0 {
				g.Add(at+time.Duration(60+g.IntN(90))*time.Second, "run runs-%s do=delete", app)
			}
			g.Add(at+time.Duration(100+g.IntN(120))*time.Second, "cron runs-%s suspend=true", app)
		}}},
		Settled: cronJobsSettled,
		Scenarios: []Scenario{{Name: "CronJobs", Play: func(u *User) {
			for _, policy := range []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent} {
				u.runCronJob(strings.ToLower(string(policy)), policy)
			}
			AwaitAll[*batchv1.Job](u, 0, nil)
		}}},
		Malformed: cronJobMalformed,
		Mutants:   cronJobMutants,
		Budgets: []Budget{{
			Name: "50 CronJobs run once, and their Jobs go", Floor: floor.Writes{Other: 100, Status: 100},
			Prepare: func(u *User) { // all runs are to be in one minute, in which there is one Job for each
				u.Wait("a minute has begun", Patience, func() error {
					if s := time.Now().Second(); s > 20 {
						return fmt.Errorf("its second %d", s)
					}
					return nil
				})
			},
			Do: func(u *User) {
				u.Each(50, func(i int) error { return u.createCronJob(fmt.Sprint("cron-", i), batchv1.AllowConcurrent) })
				AwaitAll(u, 50, func(*batchv1.Job) error { return nil })
				AwaitAll(u, 50, func(c *batchv1.CronJob) error { return unless(len(c.Status.Active) == 1, c.Status) })
				u.Each(50, func(i int) error { return u.suspendCronJob(fmt.Sprint("cron-", i)) })
				u.finishJobs()
				AwaitAll(u, 50, cronJobOver)
			},
		}},
	}
}

// JobSpec is that of Jobs that no controller runs: an actor of the simulation finishes them, or a test does.
func JobSpec(image string) batchv1.JobSpec {
	spec := batchv1.JobSpec{ManagedBy: ptr.To(actors.JobManager)}
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return spec
}

// cron makes a CronJob, changes it, or deletes it.
func cron(u *User, l script.Line) error {
	change := func(c *batchv1.CronJob) { applyCron(c, l) }
	if l.Arg(0) == "*" {
		all, err := list[*batchv1.CronJob](u)
		for _, c := range all {
			err = errors.Join(err, edit(u, c.Name, change))
		}
		return err
	}
	if _, gone := l.Get("delete"); gone {
		return removeAsToldBy[*batchv1.CronJob](u, l.Arg(0), l)
	}
	image, ok := l.Get("image")
	if !ok {
		return edit(u, l.Arg(0), change)
	}
	return apply(u, newCronJob(l.Arg(0), image), change)
}

func newCronJob(name, image string) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.JobTemplate.Spec = JobSpec(image)
	return c
}

// applyCron does to a CronJob what a line says.
func applyCron(c *batchv1.CronJob, l script.Line) {
	if minutes, ok := l.Get("minutes"); ok {
		c.Spec.Schedule = "*/" + minutes + " * * * *"
	}
	if policy, ok := l.Get("policy"); ok {
		c.Spec.ConcurrencyPolicy = batchv1.ConcurrencyPolicy(policy)
	}
	if suspend, ok := l.Get("suspend"); ok {
		c.Spec.Suspend = ptr.To(suspend == "true")
	}
	if n, ok := l.Int("history"); ok {
		c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = ptr.To(int32(n)), ptr.To(int32(n))
	}
	if n, ok := l.Int("deadline"); ok {
		c.Spec.StartingDeadlineSeconds = ptr.To(int64(n))
	}
}

// cronRuns deletes a Job of a CronJob.
func cronRuns(u *User, l script.Line) error {
	job, err := choose(u, l, func(*batchv1.Job) bool { return true })
	if err != nil {
		return err
	}
	return removeAsToldBy[*batchv1.Job](u, job.Name, l)
}

// cronJobsSettled checks the end, and that no Job was created that should not have been.
func cronJobsSettled(server *View) (wrong []string) {
	jobs := all[*batchv1.Job](server)
	for _, c := range subjects[*batchv1.CronJob](server) {
		var active, listed []string
		kept := map[batchv1.JobConditionType]int{}
		for _, job := range jobs {
			switch finished := finishedJob(job); {
			case !metav1.IsControlledBy(job, c):
			case finished != nil:
				kept[finished.Type]++
			default:
				active = append(active, job.Name)
			}
		}
		for _, ref := range c.Status.Active {
			listed = append(listed, ref.Name)
		}
		slices.Sort(active)
		slices.Sort(listed)
		if !slices.Equal(active, listed) { // CJ-14, CJ-52
			wrong = append(wrong, fmt.Sprintf("%s lists %v as active, but there are %v", c.Name, listed, active))
		}
		if c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent && len(active) > 1 { // CJ-42
			wrong = append(wrong, fmt.Sprintf("%s replaces Jobs, and %v are active", c.Name, active))
		}
		for kind, limit := range map[batchv1.JobConditionType]*int32{
			batchv1.JobComplete: c.Spec.SuccessfulJobsHistoryLimit, batchv1.JobFailed: c.Spec.FailedJobsHistoryLimit,
		} {
			if limit != nil && kept[kind] > int(*limit) { // CJ-60
				wrong = append(wrong, fmt.Sprintf("%s keeps %d Jobs that are %s, and the limit is %d", c.Name, kept[kind], kind, *limit))
			}
		}
	}
	return append(wrong, wrongRuns(server)...)
}

// wrongRuns are Jobs of schedules that should not have been created when they were.
func wrongRuns(server *View) (wrong []string) {
	cronJobs, changes := map[types.UID]*batchv1.CronJob{}, map[types.UID][]Change{}
	for _, e := range server.Changes("cronjobs") {
		c := e.Object.(*batchv1.CronJob)
		cronJobs[c.UID] = c // policy and deadline do not change
		changes[c.UID] = append(changes[c.UID], e)
	}
	ran := map[string]bool{}
	running := map[types.UID]*batchv1.Job{}
	for _, e := range server.Changes("jobs") {
		job := e.Object.(*batchv1.Job)
		ref := metav1.GetControllerOfNoCopy(job)
		if ref == nil || cronJobs[ref.UID] == nil {
			continue
		}
		if e.Before == nil {
			wrong = append(wrong, wrongRun(e, job, cronJobs[ref.UID], ran[string(ref.UID)+job.Name], running)...)
			ran[string(ref.UID)+job.Name] = true
		}
		if running[job.UID] = job; finishedJob(job) != nil || job.DeletionTimestamp != nil || e.Deleted {
			delete(running, job.UID)
		}
		if e.Deleted && !toldOfRun(changes[ref.UID], job, e.Time) {
			// Who had created it may have died before it could say so, and nothing tells the next one of it.
			delete(ran, string(ref.UID)+job.Name)
		}
	}
	return wrong
}

// toldOfRun reports whether the status of a CronJob has told by a time that a Job was created.
func toldOfRun(changes []Change, job *batchv1.Job, by time.Time) bool {
	minutes, err := strconv.ParseInt(job.Name[strings.LastIndex(job.Name, "-")+1:], 10, 64)
	return err != nil || slices.ContainsFunc(changes, func(e Change) bool {
		last := e.Object.(*batchv1.CronJob).Status.LastScheduleTime
		return !e.Time.After(by) && last != nil && last.Unix() >= minutes*60
	})
}

func wrongRun(e Change, job *batchv1.Job, c *batchv1.CronJob, again bool, running map[types.UID]*batchv1.Job) (wrong []string) {
	if again { // CJ-50
		wrong = append(wrong, job.Name+" was run twice")
	}
	minutes, err := strconv.ParseInt(job.Name[strings.LastIndex(job.Name, "-")+1:], 10, 64)
	late := e.Time.Sub(time.Unix(minutes*60, 0))
	if err != nil || late < 0 { // CJ-31
		wrong = append(wrong, fmt.Sprintf("%s was created %v before its time", job.Name, -late))
	}
	if d := c.Spec.StartingDeadlineSeconds; d != nil && late > time.Duration(*d+10)*time.Second { // a request may be slow
		wrong = append(wrong, fmt.Sprintf("%s was created %v after its time, and the deadline is %d s", job.Name, late, *d))
	}
	for _, other := range running {
		if c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && metav1.IsControlledBy(other, c) { // CJ-41
			wrong = append(wrong, fmt.Sprintf("%s was created beside %s, which the policy forbids", job.Name, other.Name))
		}
	}
	return wrong
}

var cronJobMalformed = map[string]string{
	"cronjobs/absurd": `{"apiVersion":"batch/v1","kind":"CronJob","metadata":${META},"spec":{"schedule":"TZ=","timeZone":"Mars/North","concurrencyPolicy":"Perhaps",
		"startingDeadlineSeconds":-9223372036854775808,"successfulJobsHistoryLimit":-1,"failedJobsHistoryLimit":-2},
		"status":{"active":[{},{"name":"absurd-1","uid":"x"},{"name":"absurd-1","uid":"x"}],"lastScheduleTime":"9999-12-31T23:59:59Z"}}`,
	"cronjobs/never": `{"apiVersion":"batch/v1","kind":"CronJob","metadata":${META},"spec":{"schedule":", , * * *"}}`,
	"cronjobs/empty": `{"apiVersion":"batch/v1","kind":"CronJob","metadata":${META}}`,
	"jobs/never-99999999999": `{"apiVersion":"batch/v1","kind":"Job","metadata":{"annotations":{"batch.kubernetes.io/cronjob-scheduled-timestamp":"tomorrow"},
		"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"never","uid":"cronjobs/never","controller":true}],${META}},
		"status":{"conditions":[{"type":"Complete","status":"True"},{"type":"Failed","status":"True"}]}}`,
}

var cronJobMutants = []Mutant{
	{
		Name: "the concurrency policy Forbid is ignored",
		Edits: []Edit{{"pkg/controllers/cronjob/plan_decide.go",
			"c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 0:",
			"c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 9:"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Forbid image=bad:1
			at 150s  run backup do=delete`,
		Oracle: SettledOracle,
	},
	{
		Name: "what is to be replaced stays",
		Edits: []Edit{{"pkg/controllers/cronjob/plan.go",
			"if s.CronJob.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent {", "if s.CronJob.Spec.ConcurrencyPolicy != \"\" {"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Replace image=bad:1
			at 130s  cron backup suspend=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "one finished Job too many is kept",
		Edits: []Edit{{"pkg/controllers/cronjob/plan_jobs.go",
			"len(jobs)-max(0, int(*limit))", "len(jobs)-1-max(0, int(*limit))"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Allow image=good:1 history=1
			at 150s  cron backup suspend=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "the deadline is ignored",
		Edits: []Edit{{"pkg/controllers/cronjob/plan_decide.go",
			"return s.CronJob.Spec.StartingDeadlineSeconds != nil && !due",
			"return s.CronJob.Spec.StartingDeadlineSeconds == nil && !due"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Forbid image=slow:1 history=1 deadline=10
			at 50s   fault m0 stop back=55s
			at 230s  cron backup suspend=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "a Job that is gone stays active",
		Edits: []Edit{{"pkg/controllers/cronjob/observe.go",
			"case job != nil && job.UID == ref.UID && metav1.IsControlledBy(job, s.CronJob):",
			"case job == nil:\n\t\t\ts.Jobs = append(s.Jobs, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.CronJob.Namespace, " +
				"Name: ref.Name, UID: ref.UID}})\n\t\tcase job.UID == ref.UID && metav1.IsControlledBy(job, s.CronJob):"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Allow image=bad:1
			at 80s   run backup do=delete
			at 90s   cron backup suspend=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "a run is started again when its Job is gone",
		Edits: []Edit{
			{"pkg/controllers/cronjob/plan_decide.go", "latest := workloads.Later(timeOf(s.CronJob.Status.LastScheduleTime), s.Memory.Ran)",
				"latest := timeOf(nil)"},
		},
		Script: withoutElection + `
			at 1s    cron backup minutes=2 policy=Allow image=good:1 history=0
			at 200s  cron backup suspend=true`,
		Oracle: SettledOracle,
	},
	{
		Name: "suspended CronJobs run",
		Edits: []Edit{{"pkg/controllers/cronjob/plan_decide.go",
			"if ptr.Deref(c.Spec.Suspend, false) {", "if ptr.Deref(c.Spec.Suspend, false) && c.Name == \"\" {"}},
		Script: withoutElection + `
			at 1s    cron backup minutes=1 policy=Allow image=good:1`,
		Oracle: "L1",
	},
}

// createCronJob creates a CronJob that is due in a second, and then at most once a minute, since that is how long its Job has its name.
func (u *User) createCronJob(name string, policy batchv1.ConcurrencyPolicy) error {
	c := newCronJob(name, "good:1")
	c.Spec.Schedule, c.Spec.ConcurrencyPolicy = "@every 1s", policy
	return ignoreExists(create(u, c))
}

func (u *User) suspendCronJob(name string) error {
	return patch[*batchv1.CronJob](u, name, `{"spec":{"suspend":true,"successfulJobsHistoryLimit":0}}`)
}

// runCronJob creates a CronJob, deletes its first Job, and lets the history limit delete the others.
func (u *User) runCronJob(name string, policy batchv1.ConcurrencyPolicy) {
	u.Helper()
	u.Try("create "+name, func() error { return u.createCronJob(name, policy) })
	Await(u, name, func(c *batchv1.CronJob) error { return unless(len(c.Status.Active) > 0, c.Status) })
	u.Try("suspend "+name, func() error { return u.suspendCronJob(name) })
	u.finishJobs()
	Await(u, name, cronJobOver)
	AwaitAll[*batchv1.Job](u, 0, nil) // the history limit has deleted it
}

// cronJobOver says whether a CronJob knows that its Job has ended.
func cronJobOver(c *batchv1.CronJob) error {
	return unless(len(c.Status.Active) == 0 && c.Status.LastSuccessfulTime != nil, c.Status)
}

// finishJobs lets all Jobs complete that have not finished.
func (u *User) finishJobs() {
	u.Helper()
	u.Try("let the Jobs complete", func() error {
		all, err := list[*batchv1.Job](u)
		for _, job := range all {
			if finishedJob(job) == nil {
				now := metav1.Now().Rfc3339Copy()
				err = errors.Join(err,
					ignoreNotFound(edit(u, job.Name, func(job *batchv1.Job) { actors.FinishJob(&job.Status, false, now) }, "status")))
			}
		}
		return err
	})
}

// finishedJob returns the condition that says that a Job has finished; nil if it has not.
func finishedJob(j *batchv1.Job) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}
