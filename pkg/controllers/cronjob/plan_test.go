package cronjob

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Minutes since the Unix epoch: 29454365 at 10:05, and 29454370 at 10:10, of January 1, 2026.
const (
	at1005 = "backup-29454365"
	at1010 = "backup-29454370"
)

// A row is a sentence.
func TestPlan(t *testing.T) {
	running, forgotten := run("10:05:00"), run("10:05:00")
	byHand := run("10:05:00", named("by-hand"), manual)
	elsewhere := run("10:10:00", func(job *batchv1.Job) { job.OwnerReferences = nil })
	always := func(steps ...string) []string { return steps }
	for _, c := range []struct {
		name string
		now  string
		snapshot
		does []string
		next string // until the next reconcile; empty for none
	}{
		{"CJ-10 the CronJob is gone", "10:05:01", snapshot{}, nil, ""},
		{"CJ-30 nothing is due yet", "10:04:59", see(backup()), nil, "1.1s"},
		{"CJ-85 a Job is due", "10:05:00", see(backup()), always("create " + at1005), "5m0.1s"},
		{"CJ-31 the time itself counts as due", "10:05:00", see(backup(ranAt("10:00:00"))), always("create " + at1005), "5m0.1s"},
		{"CJ-31 the latest of several missed times starts at once", "10:13:00", see(backup()), always("create " + at1010), "2m0.1s"},
		{"CJ-86 after a downtime the latest time starts", "10:31:00", see(backup(ranAt("10:00:00"))), always("create backup-29454390"),
			"4m0.1s"},
		{"CJ-86 unless it is past the deadline", "10:31:00", see(backup(ranAt("10:00:00"), deadline(30))),
			always("Warning MissSchedule: Missed scheduled time to start a job: Thu, 01 Jan 2026 10:30:00 +0000"), "4m0.1s"},
		{"CJ-33 within the deadline it starts late", "10:30:29", see(backup(ranAt("10:25:00"), deadline(30))),
			always("create backup-29454390"), "4m31.1s"},
		{"CJ-33 a resumed CronJob without deadline starts the latest missed run", "11:00:01", see(backup(ranAt("10:05:00"))),
			always("create backup-29454420"), "4m59.1s"},
		{"CJ-97 a huge deadline is none", "10:13:00", see(backup(deadline(1 << 62))), always("create " + at1010), "2m0.1s"},
		{"a deadline of zero is always missed", "10:05:00", see(backup(deadline(0))),
			always("Warning MissSchedule: Missed scheduled time to start a job: Thu, 01 Jan 2026 10:05:00 +0000"), "5m0.1s"},
		{"CJ-23 the time was acted on", "10:05:01", see(backup(ranAt("10:05:00"))), nil, "4m59.1s"},
		{"CJ-23 there is a Job for the time", "10:05:01", see(backup(), forgotten), nil, "4m59.1s"},
		{"CJ-23 nor is an earlier time made up for then", "10:12:00", see(backup(ranAt("10:00:00")), run("10:10:00")), nil, "3m0.1s"},
		{"CJ-34 another time in the same minute", "10:06:10",
			see(backup(every("@every 20s"), ranAt("10:06:00")), run("10:06:00", complete("10:06:05"), started("10:06:00"))), nil, "10.1s"},

		{"CJ-17 a CronJob that is being deleted", "10:05:00", see(backup(dying)), nil, ""},
		{"CJ-6 CJ-19 a suspended CronJob", "10:05:00", see(backup(suspended)), nil, ""},
		{"CJ-6 CJ-18 an unknown time zone", "10:05:00", see(backup(func(c *batchv1.CronJob) { c.Spec.TimeZone = ptr.To("Mars/North") })),
			always(`Warning UnknownTimeZone: invalid timeZone: "Mars/North": unknown time zone Mars/North`), ""},
		{"CJ-6 CJ-20 a schedule that cannot be parsed", "10:05:00", see(backup(every("often"))),
			always(`Warning UnparseableSchedule: unparseable schedule: "often" : expected exactly 5 fields, found 1: [often]`), ""},
		{"CJ-28 a malformed prefix does not crash", "10:05:00", see(backup(every("TZ=UTC"))),
			always(`Warning UnparseableSchedule: unparseable schedule: "TZ=UTC" : nothing follows the time zone`), ""},
		{"CJ-6 CJ-21 CJ-29 a schedule that never comes", "10:05:00", see(backup(every("0 0 31 2 *"))),
			always("Warning InvalidSchedule: invalid schedule: 0 0 31 2 * : no time within five years matches"), ""},
		{"CJ-28 a zone in the schedule", "10:05:00", see(backup(every("CRON_TZ=Asia/Tokyo 5 19 * * *"))), always(
			`Warning UnsupportedSchedule: CRON_TZ or TZ used in schedule "CRON_TZ=Asia/Tokyo 5 19 * * *" is not officially supported, `+
				"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", "create "+at1005),
			"24h0m0.1s"},
		{"CJ-32 more than a hundred missed times", "23:59:00", see(backup(every("* * * * *"))), always(
			"Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
			"create backup-29455199"), "1m0.1s"},
		{"CJ-32 a hundred", "11:42:59", see(backup(every("* * * * *"))), always("create backup-29454462"), "1.1s"},
		{"CJ-32 a deadline bounds them", "23:59:00", see(backup(every("* * * * *"), deadline(600))), always("create backup-29455199"),
			"1m0.1s"},

		{"CJ-40 Allow creates beside a running Job", "10:10:00", see(backup(ranAt("10:05:00"), lists(running)), running),
			always("create " + at1010), "5m0.1s"},
		{"CJ-41 CJ-87 Forbid does not", "10:10:00", see(backup(concurrency("Forbid"), ranAt("10:05:00"), lists(running)), running),
			always("Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid"),
			"5m0.1s"},
		{"CJ-41 CJ-87 when the running Job ends, the skipped run starts late", "10:12:00",
			see(backup(concurrency("Forbid"), ranAt("10:05:00"), lists(running)), run("10:05:00", complete("10:12:00"))),
			always("create " + at1010), "3m0.1s"},
		{"CJ-41 unless the deadline has passed", "10:12:00",
			see(backup(concurrency("Forbid"), deadline(60), ranAt("10:05:00"), lists(running)), run("10:05:00", complete("10:12:00"))),
			always("Warning MissSchedule: Missed scheduled time to start a job: Thu, 01 Jan 2026 10:10:00 +0000"), "3m0.1s"},
		{"CJ-41 a Job of the schedule that could not be noted counts", "10:10:00", see(backup(concurrency("Forbid")), forgotten),
			always("Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid"),
			"5m0.1s"},
		{"CJ-13 CJ-43 CJ-55 a Job that users have started does not", "10:10:00",
			see(backup(concurrency("Forbid"), ranAt("10:05:00")), byHand),
			always("Warning UnexpectedJob: Saw a job that the controller did not create or forgot: by-hand", "create "+at1010), "5m0.1s"},
		{"CJ-42 CJ-88 Replace deletes the running Job", "10:10:00",
			see(backup(concurrency("Replace"), ranAt("10:05:00"), lists(running)), running),
			always("delete "+at1005, "create "+at1010), "5m0.1s"},
		{"CJ-42 but not one that is being deleted already", "10:10:00",
			see(backup(concurrency("Replace"), ranAt("10:05:00"), lists(running)), run("10:05:00", terminating)),
			always("create " + at1010), "5m0.1s"},
		{"CJ-42 nor one that users have started", "10:10:00",
			see(backup(concurrency("Replace"), ranAt("10:05:00")), run("10:05:00", named("by-hand"))),
			always("Warning UnexpectedJob: Saw a job that the controller did not create or forgot: by-hand", "create "+at1010), "5m0.1s"},
		{"CJ-93 the name is taken by somebody else's Job", "10:10:00",
			with(see(backup(ranAt("10:05:00"))), func(s *snapshot) { s.Others = []*batchv1.Job{elsewhere} }),
			always("Warning FailedCreate: Error creating job: " + at1010 + " exists, and this CronJob does not control it"), "5m0.1s"},

		{"CJ-94 a changed schedule does not bring what would have been before", "10:13:00",
			with(see(backup(ranAt("10:00:00"))), func(s *snapshot) { s.Memory.Schedule = "0 0 * * * UTC" }), nil, "2m0.1s"},
		{"CJ-94 nor does it later", "10:13:00", with(see(backup(ranAt("10:00:00"))), func(s *snapshot) {
			s.Memory = memory{Schedule: "*/5 * * * * UTC", Since: clock("10:12:00")}
		}), nil, "2m0.1s"},
		{"CJ-2 it brings what comes then", "10:15:00", with(see(backup(ranAt("10:00:00"))), func(s *snapshot) {
			s.Memory = memory{Schedule: "*/5 * * * * UTC", Since: clock("10:12:00")}
		}), always("create backup-29454375"), "5m0.1s"},
		{"a run is not repeated when its Job is gone before the status tells of it", "10:06:00",
			with(see(backup()), func(s *snapshot) { s.Memory.Ran = clock("10:05:00") }), nil, "4m0.1s"},
		{"CJ-96 a warning is given once", "10:31:00", with(see(backup(ranAt("10:00:00"), deadline(30))), func(s *snapshot) {
			s.Memory.Reported = []string{"MissSchedule 1767263400"}
		}), nil, "4m0.1s"},
		{"CJ-91 CJ-96 and again for the next missed time", "10:36:00",
			with(see(backup(ranAt("10:00:00"), deadline(30))), func(s *snapshot) {
				s.Memory.Reported = []string{"MissSchedule 1767263400"}
			}), always("Warning MissSchedule: Missed scheduled time to start a job: Thu, 01 Jan 2026 10:35:00 +0000"), "4m0.1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := clock(c.now)
			_, p := planJobs(now, c.snapshot)
			if p.Why == "" {
				t.Error("the plan does not say why")
			}
			if diff := cmp.Diff(c.does, words(p.Steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			requeue := ""
			if p.Requeue != 0 {
				requeue = p.Requeue.String()
			}
			if requeue != c.next {
				t.Errorf("reconciles again after %q, want %q", requeue, c.next)
			}
		})
	}
}

// with edits a snapshot.
func with(s snapshot, edit func(*snapshot)) snapshot {
	edit(&s)
	return s
}

func TestCJ50TheJob(t *testing.T) { // CJ-50, CJ-51
	c := backup(func(c *batchv1.CronJob) { c.Annotations = map[string]string{"not": "copied"} })
	want := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: at1005, Labels: map[string]string{"app": "backup"},
			Annotations: map[string]string{"team": "storage", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T10:05:00Z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "CronJob", Name: "backup", UID: "uid-backup", Controller: ptr.To(true),
				BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2)},
	}
	create := stepsAt("10:05:00", see(c))[0].(plan.Create)
	if diff := cmp.Diff(want, create.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Spec.JobTemplate.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] != "" {
		t.Error("the template was changed")
	}
	for _, row := range []struct{ schedule, zone, want string }{
		{"5 19 * * *", "Asia/Tokyo", "2026-01-01T19:05:00+09:00"},
		{"TZ=Asia/Tokyo 5 19 * * *", "Europe/Berlin", "2026-01-01T10:05:00Z"}, // the zone of the CronJob is not that of the schedule
	} {
		c := backup(every(row.schedule), func(c *batchv1.CronJob) { c.Spec.TimeZone = &row.zone })
		job := createdJob(carriedOut(stepsAt("10:05:00", see(c))))
		if got := job.GetAnnotations()[batchv1.CronJobScheduledTimestampAnnotation]; got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

func TestScheduledTime(t *testing.T) {
	c := backup()
	for _, row := range []struct {
		name string
		job  *batchv1.Job
		want string // empty for none
	}{
		{"the name has the minute", run("10:05:00", func(job *batchv1.Job) { job.Annotations = nil }), "10:05:00"},
		{"the annotation has the second", run("10:05:13"), "10:05:13"},
		{"an annotation that contradicts the name is ignored", run("10:05:13", named(at1010)), "10:10:00"},
		{"CJ-55 a Job that users have started has none", run("10:05:00", manual), ""},
		{"another name has none", run("10:05:00", named("other-29454365")), ""},
		{"a name without number has none", run("10:05:00", named("backup-x")), ""},
		{"a negative number is none", run("10:05:00", named("backup--29454365")), ""},
		{"a large number is none", run("10:05:00", named("backup-99999999999")), ""},
	} {
		got := ""
		if at, ok := scheduledTime(c, row.job); ok {
			got = at.UTC().Format(time.TimeOnly)
		}
		if got != row.want {
			t.Errorf("%s: %q", row.name, got)
		}
	}
}

func TestHistory(t *testing.T) { // CJ-60
	one, two, three := run("10:05:00", complete("10:06:00"), started("10:05:00")),
		run("10:10:00", complete("10:11:00"), started("10:10:00")), run("10:15:00", complete("10:16:00"), started("10:15:00"))
	bad1, bad2 := run("10:20:00", failed, started("10:20:00")), run("10:25:00", failed, started("10:25:00"))
	unstarted := run("10:00:00", complete("10:16:00"))
	all := []*batchv1.Job{bad2, three, one, two, bad1}
	settled := func(edits ...edit) *batchv1.CronJob {
		return backup(append([]edit{ranAt("10:25:00"), succeededAt("10:16:00")}, edits...)...)
	}
	for _, c := range []struct {
		name string
		snapshot
		deletes []string
	}{
		{"CJ-60 the oldest beyond the limits go", see(settled(limits(ptr.To[int32](1), ptr.To[int32](1))), all...),
			[]string{one.Name, two.Name, bad1.Name}},
		{"CJ-60 zero keeps none", see(settled(limits(ptr.To[int32](0), ptr.To[int32](0))), all...),
			[]string{one.Name, two.Name, three.Name, bad1.Name, bad2.Name}},
		{"CJ-60 nil keeps all", see(settled(limits(nil, nil)), all...), nil},
		{"CJ-60 a negative limit keeps none", see(settled(limits(ptr.To[int32](-1), nil)), all...),
			[]string{one.Name, two.Name, three.Name}},
		{"CJ-60 a Job without start is the newest", see(settled(limits(ptr.To[int32](1), nil)), unstarted, two), []string{two.Name}},
		{"CJ-60 then the name decides", see(settled(limits(ptr.To[int32](1), nil)), run("10:10:00", complete("10:16:00")), unstarted),
			[]string{unstarted.Name}},
		{"CJ-12 also of suspended CronJobs", see(settled(limits(ptr.To[int32](2), nil), suspended), all...), []string{one.Name}},
		{"CJ-12 and of those that are being deleted", see(settled(limits(ptr.To[int32](2), nil), dying), all...), []string{one.Name}},
		{"CJ-99 one that is being deleted is neither deleted again nor counted",
			see(settled(limits(ptr.To[int32](1), nil)), run("10:05:00", complete("10:06:00"), terminating), two), nil},
		{"CJ-55 one that users have started counts",
			see(settled(limits(ptr.To[int32](1), nil)), two,
				run("10:05:00", named("by-hand"), manual, complete("10:06:00"), started("10:05:00"))), []string{"by-hand"}},
		{"one whose run is not in the status yet stays",
			see(settled(ranAt("10:05:00"), suspended, limits(ptr.To[int32](0), nil)), one, two), []string{one.Name}},
		{"nor does one go whose success is not", see(settled(succeededAt("10:06:00"), limits(ptr.To[int32](0), nil)), one, two),
			[]string{one.Name}},
		{"CJ-14 nor one that is still listed as active", see(settled(lists(two), limits(ptr.To[int32](0), nil)), one, two),
			[]string{one.Name}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, step := range stepsAt("10:25:30", c.snapshot) {
				if step, ok := step.(plan.Delete); ok {
					// CJ-61
					if step.Propagation != metav1.DeletePropagationBackground || step.Events.Done.Reason != "SuccessfulDelete" ||
						step.Events.Failed.Reason != "FailedDelete" {
						t.Errorf("%+v", step)
					}
					for _, o := range step.Objects {
						got = append(got, o.GetName())
					}
				}
			}
			if diff := cmp.Diff(c.deletes, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The history limits do not hinder the run that is due, nor the other way round.
func TestHistoryAndRunDoNotHinderOneAnother(t *testing.T) { // CJ-61
	c := backup(ranAt("10:00:00"), succeededAt("10:06:00"), limits(ptr.To[int32](0), nil))
	_, p := planJobs(clock("10:10:00"), see(c, run("10:00:00", complete("10:06:00"))))
	if each, ok := p.Steps[0].(plan.Each); !ok || len(each.Sequences) != 2 || len(p.Steps) != 1 {
		t.Errorf("%+v", p.Steps)
	}
}
