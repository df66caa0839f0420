package cronjob

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// draw is any snapshot: of objects that servers accept, or of objects filled with whatever their types allow.
func draw(t *rapid.T) (now time.Time, s snapshot) {
	minute := func(name string) time.Time {
		return clock("10:00:00").Add(time.Duration(rapid.IntRange(0, 60*60).Draw(t, name)) * time.Second)
	}
	now = minute("now")
	c := backup(concurrency(rapid.SampledFrom([]batchv1.ConcurrencyPolicy{"Allow", "Forbid", "Replace"}).Draw(t, "policy")),
		every(rapid.SampledFrom([]string{"* * * * *", "*/5 * * * *", "@every 20s", "0 0 31 2 *", "TZ=Asia/Tokyo */5 * * * *",
			"TZ="}).Draw(t, "schedule")),
		limits(drawInt32(t, "successful"), drawInt32(t, "failed")))
	if rapid.Bool().Draw(t, "anything") {
		name := c.Name
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(c)
		c.Namespace, c.Name, c.UID = "shop", name, "uid-backup"
	}
	if rapid.Bool().Draw(t, "ran") {
		c.Status.LastScheduleTime = &metav1.Time{Time: minute("last")}
	}
	s = snapshot{CronJob: c, Zone: zone{time.UTC}}
	for range rapid.IntRange(0, 6).Draw(t, "jobs") {
		job := newJob(c, minute("job"), s.Zone)
		if rapid.IntRange(0, 3).Draw(t, "by hand") == 0 {
			job.Name = rapid.StringMatching("by-[a-z]{3}").Draw(t, "name")
		}
		job.UID = types.UID("uid-" + job.Name)
		if rapid.IntRange(0, 3).Draw(t, "any status") == 0 {
			plantest.Anything(rapid.Int64().Draw(t, "seed of the status"))(&job.Status)
		}
		switch rapid.IntRange(0, 4).Draw(t, "fate") {
		case 0:
			job.DeletionTimestamp = &metav1.Time{Time: now}
		case 1:
			job.Status.CompletionTime = &metav1.Time{Time: minute("end")}
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		case 2:
			failed(job)
		}
		if rapid.Bool().Draw(t, "listed") {
			lists(job)(c)
		}
		if !slices.ContainsFunc(s.Jobs, func(other *batchv1.Job) bool { return other.Name == job.Name }) {
			s.Jobs = append(s.Jobs, job)
		}
	}
	return now, s
}

func drawInt32(t *rapid.T, name string) *int32 {
	return rapid.Ptr(rapid.Int32Range(-1, 3), true).Draw(t, name)
}

func copied(s snapshot) snapshot {
	s.CronJob, s.Jobs = s.CronJob.DeepCopy(), plantest.Copies(s.Jobs)
	return s
}

var comparable = cmp.Comparer(func(a, b zone) bool { return a.String() == b.String() })

// Whatever the objects are: neither plan nor report panics or changes them.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		before := copied(s)
		d, p := planJobs(now, s)
		reportStatus(now, s, d, carriedOut(p.Steps))
		if p.Requeue < 0 {
			t.Errorf("reconciles again after %v", p.Requeue)
		}
		if diff := cmp.Diff(before, s, comparable); diff != "" {
			t.Errorf("LeavesInputAlone: %s", diff)
		}
	})
}

// same fails the test unless two snapshots lead to the same plan and the same status.
func same(t *rapid.T, now time.Time, a, b snapshot) {
	t.Helper()
	d, p := planJobs(now, a)
	e, again := planJobs(now, b)
	if diff := cmp.Diff([]any{words(p.Steps), p.Requeue}, []any{words(again.Steps), again.Requeue}); diff != "" {
		t.Error(diff)
	}
	r, other := reportStatus(now, a, d, carriedOut(p.Steps)), reportStatus(now, b, e, carriedOut(again.Steps))
	if diff := cmp.Diff(words(r.Steps), words(other.Steps)); diff != "" {
		t.Errorf("report: %s", diff)
	}
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		same(t, now, s, plantest.Restored(t, s))
	})
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		shuffled := s
		shuffled.Jobs = rapid.Permutation(s.Jobs).Draw(t, "shuffled")
		same(t, now, s, shuffled)
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		cached := copied(s)
		for i, job := range cached.Jobs {
			cached.Jobs[i] = plantest.Kept(t, kept, job)
		}
		same(t, now, s, cached)
	})
}

// carry carries out a plan and its report, as the runtime does, and returns what there is afterwards.
func carry(now time.Time, s snapshot) snapshot {
	d, p := planJobs(now, s)
	did := carriedOut(p.Steps)
	memory := remember(now, s, d, did)
	after := copied(s)
	for _, r := range did.Results {
		switch job := r.Object.(*batchv1.Job).DeepCopy(); r.Verb {
		case plan.Created:
			job.UID = r.UID
			after.Jobs = append(after.Jobs, job)
		case plan.Deleted:
			after.Jobs = slices.DeleteFunc(after.Jobs, func(other *batchv1.Job) bool { return other.UID == job.UID })
		}
	}
	for _, step := range reportStatus(now, s, d, did).Steps {
		if change, ok := step.(plan.Change); ok {
			after.CronJob.Status = change.New.(*batchv1.CronJob).Status
		}
	}
	after.Memory, after.Missing = *memory, nil
	return after
}

// What was planned is done: after at most one more reconcile, which may delete what the status had to tell of first, nothing is left.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		after := carry(now, carry(now, s))
		d, p := planJobs(now, after)
		if len(p.Steps) > 0 {
			t.Errorf("left to do: %v", words(p.Steps))
		}
		if r := reportStatus(now, after, d, plan.Outcome{}); len(r.Steps) > 0 {
			t.Errorf("left to report: %v", words(r.Steps))
		}
	})
}

// No run is started before its time, after its deadline, or beside an active Job that forbids it; and nothing is deleted that has not
// finished, but what is replaced.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		active, _ := s.active()
		_, p := planJobs(now, s)
		did := carriedOut(p.Steps)
		for _, r := range did.Results {
			job := r.Object.(*batchv1.Job)
			if r.Verb == plan.Deleted && workloads.JobFinished(job) == nil &&
				s.CronJob.Spec.ConcurrencyPolicy != batchv1.ReplaceConcurrent {
				t.Errorf("%s is deleted and has not finished", job.Name)
			}
			if r.Verb != plan.Created {
				continue
			}
			at, ok := scheduledTime(s.CronJob, job)
			if !ok || at.After(now) || !at.After(timeOf(s.CronJob.Status.LastScheduleTime)) {
				t.Errorf("%s is created at %v, last scheduled was %v", job.Name, now, s.CronJob.Status.LastScheduleTime)
			}
			if d := s.CronJob.Spec.StartingDeadlineSeconds; d != nil && *d < 1e9 && now.Sub(at) > time.Duration(*d)*time.Second {
				t.Errorf("%s is created at %v, after its deadline", job.Name, now)
			}
			if s.CronJob.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(active) > 0 {
				t.Errorf("%s is created beside %s", job.Name, active[0].Name)
			}
		}
	})
}
