package cronjob

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestReport(t *testing.T) {
	running := run("10:05:00")
	for _, c := range []struct {
		name string
		now  string
		snapshot
		reports []string
	}{
		{"CJ-10 the CronJob is gone", "10:05:01", snapshot{}, nil},
		{"CJ-25 nothing has changed", "10:06:00", see(backup(ranAt("10:05:00"), lists(running)), running), nil},
		{"CJ-52 CJ-71 CJ-85 a Job was created", "10:05:03", see(backup()),
			[]string{"status active [" + at1005 + "], scheduled 10:05:00, successful never"}},
		{"CJ-53 a Job was created and that could not be noted", "10:05:03", see(backup(), running),
			[]string{"status active [" + at1005 + "], scheduled 10:05:00, successful never"}},
		{"CJ-14 CJ-15 CJ-85 a Job has completed", "10:06:30",
			see(backup(ranAt("10:05:00"), lists(running)), run("10:05:00", complete("10:06:00"))),
			[]string{"status active [], scheduled 10:05:00, successful 10:06:00",
				"Normal SawCompletedJob: Saw completed job: " + at1005 + ", condition: Complete"}},
		{"CJ-14 a Job has failed", "10:06:30", see(backup(ranAt("10:05:00"), lists(running)), run("10:05:00", failed)),
			[]string{"status active [], scheduled 10:05:00, successful never",
				"Normal SawCompletedJob: Saw completed job: " + at1005 + ", condition: Failed"}},
		{"CJ-14 a Job has completed before it was noted", "10:06:30", see(backup(), run("10:05:00", complete("10:05:01"))),
			[]string{"status active [], scheduled 10:05:00, successful 10:05:01",
				"Normal SawCompletedJob: Saw completed job: " + at1005 + ", condition: Complete"}},
		{"CJ-15 CJ-55 the success of a Job that users have started counts", "10:06:30",
			see(backup(ranAt("10:05:00")), run("10:05:00", named("by-hand"), manual, complete("10:06:00"))),
			[]string{"status active [], scheduled 10:05:00, successful 10:06:00"}},
		{"CJ-15 an earlier success does not", "10:08:00",
			see(backup(ranAt("10:05:00"), succeededAt("10:07:00")), run("10:05:00", complete("10:06:00"))), nil},
		{"CJ-101 a success without time changes nothing", "10:08:00", see(backup(ranAt("10:05:00")),
			run("10:05:00", complete("10:06:00"), func(job *batchv1.Job) { job.Status.CompletionTime = nil })), nil},
		{"CJ-16 an active Job is gone", "10:06:30", with(see(backup(ranAt("10:05:00"), lists(running))), func(s *snapshot) {
			s.Missing = []corev1.ObjectReference{{Name: at1005, UID: running.UID}}
		}), []string{"status active [], scheduled 10:05:00, successful never", "Normal MissingJob: Active job went missing: " + at1005}},
		{"CJ-41 CJ-71 a skipped run does not count as scheduled", "10:10:00",
			see(backup(concurrency("Forbid"), ranAt("10:05:00"), lists(running)), running), nil},
		{"CJ-42 CJ-88 a Job was replaced", "10:10:00", see(backup(concurrency("Replace"), ranAt("10:05:00"), lists(running)), running),
			[]string{"status active [" + at1010 + "], scheduled 10:10:00, successful never"}},
		{"CJ-42 so is one that is still being deleted", "10:10:00",
			see(backup(concurrency("Replace"), ranAt("10:05:00"), lists(running)), run("10:05:00", terminating)),
			[]string{"status active [" + at1010 + "], scheduled 10:10:00, successful never"}},
		{"CJ-13 a Job that users have started is not active", "10:06:00", see(backup(ranAt("10:05:00")), run("10:05:00", named("by-hand"))),
			nil},
		{"CJ-17 the status of a CronJob that is being deleted", "10:06:30",
			see(backup(dying, ranAt("10:05:00"), lists(running)), run("10:05:00", complete("10:06:00"))),
			[]string{"status active [], scheduled 10:05:00, successful 10:06:00",
				"Normal SawCompletedJob: Saw completed job: " + at1005 + ", condition: Complete"}},
		{"several Jobs may be active", "10:10:00", see(backup(ranAt("10:05:00"), lists(running)), running),
			[]string{"status active [" + at1005 + " " + at1010 + "], scheduled 10:10:00, successful never"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reportAt(c.now, c.snapshot)
			if diff := cmp.Diff(c.reports, words(p.Steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// reportAt is the report at a time, when all was done that was planned.
func reportAt(at string, s snapshot) plan.Plan {
	d, p := planJobs(clock(at), s)
	return reportStatus(clock(at), s, d, carriedOut(p.Steps))
}

func TestReferenceOfActiveJobs(t *testing.T) { // CJ-52
	s := see(backup())
	p := reportAt("10:05:00", s)
	want := []corev1.ObjectReference{{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: at1005, UID: "uid-" + at1005,
		ResourceVersion: "7"}}
	if diff := cmp.Diff(want, p.Steps[0].(plan.Change).New.(*batchv1.CronJob).Status.Active); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailedWritesAreNotReported(t *testing.T) { // CJ-54, CJ-71
	s := see(backup(concurrency("Replace"), ranAt("10:05:00"), lists(run("10:05:00"))), run("10:05:00"))
	d, planned := planJobs(clock("10:10:00"), s)
	did := carriedOut(planned.Steps)
	did.Results[1].Err = errors.New("refused")
	p := reportStatus(clock("10:10:00"), s, d, did)
	if diff := cmp.Diff([]string{"status active [], scheduled 10:05:00, successful never"}, words(p.Steps)); diff != "" {
		t.Errorf("the old Job is gone and the new one was not created (-want +got):\n%s", diff)
	}
}

// What has ended waits for a moment, and what was created for the keys that wait. Only the status tells of the run of a Job that is
// soon gone, so that does not wait.
func TestDebounce(t *testing.T) {
	running, ended := run("10:05:00"), run("10:05:00", complete("10:06:00"))
	ends := func(edits ...edit) snapshot {
		return see(backup(append(edits, ranAt("10:05:00"), lists(running))...), ended)
	}
	for _, c := range []struct {
		name, at string
		snapshot snapshot
		waits    bool
	}{
		{"a Job is created", "10:05:00", see(backup()), true},
		{"a Job is created that is gone when it has finished", "10:05:00", see(backup(ttl(0))), false},
		{"a Job has ended", "10:06:30", ends(), true},
		{"a Job that is kept for an hour has", "10:06:30", ends(ttl(3600)), true},
		{"a Job that is gone when it has finished has", "10:06:30", ends(ttl(0)), false},
		{"a Job that the next one replaces has", "10:06:30", ends(concurrency("Replace")), false},
	} {
		p := reportAt(c.at, c.snapshot)
		if waits := p.When != plan.Now(); len(p.Steps) == 0 || waits != c.waits {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

func ttl(seconds int32) edit {
	return func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &seconds }
}
