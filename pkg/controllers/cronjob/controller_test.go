package cronjob

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// All Jobs of ten thousand CronJobs that are due at the same minute are created at once, each by one request, before the statuses are
// written, and nothing is refused.
func TestTenThousandAtTheSameMinute(t *testing.T) {
	n := plantest.Tries(10_000, 1000)
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		for i := range n {
			c.put(backup(func(o *batchv1.CronJob) {
				o.Name, o.UID = fmt.Sprintf("backup-%05d", i), ""
				o.CreationTimestamp = metav1.Now().Rfc3339Copy()
			}))
		}
		c.AfterWrite(func(clienttest.Write) error {
			time.Sleep(20 * time.Microsecond) // a server that takes no time answers before all keys that are due are queued
			return nil
		})
		c.until("00:15:01")
		if jobs := len(c.Names(client.KindFor[*batchv1.Job]())); jobs != n {
			t.Errorf("%d Jobs within a second", jobs)
		}
		early, left := 0, n
		for _, w := range c.Writes() {
			if w.Verb == "create" {
				left--
			} else if left > 0 {
				early++
			}
		}
		if early > n/10 {
			t.Errorf("%d statuses were written before all Jobs were created", early)
		}
		c.until("00:16:00")
		if statuses, all, refused := c.CountWrites("update CronJob"), len(c.Writes()), c.CountWrites("refused"); statuses != n ||
			all != 2*n || refused > 0 {
			t.Errorf("%d statuses, %d writes in all, %d refused", statuses, all, refused)
		}
	})
}

// A Job of another owner with the name of the next run is left alone, and the CronJob goes on with the run after that.
func TestForeignJobs(t *testing.T) { // CJ-90, CJ-93
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		foreign := newJob(backup(), time.Date(2000, 1, 1, 0, 15, 0, 0, time.UTC), zone{time.UTC})
		foreign.OwnerReferences[0].UID, foreign.OwnerReferences[0].Kind = "another", "Workflow"
		foreign.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		c.put(foreign)
		c.start(limits(ptr.To[int32](0), ptr.To[int32](0)))
		c.until("00:21:00")
		if n := len(c.Names(client.KindFor[*batchv1.Job]())); n != 2 || c.CountWrites("delete") > 0 || c.CountWrites("create") != 1 ||
			c.CountWrites("refused") > 0 {
			t.Errorf("%d Jobs: %v", n, c.Log())
		}
	})
}

// Job names are fixed, so a Job whose creation was not answered is not created again.
func TestCrashAfterCreation(t *testing.T) { // CJ-50, CJ-53
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		c.start()
		c.AfterWrite(func(w clienttest.Write) error {
			if w.Verb == "create" {
				c.AfterWrite(c.wrote)
				return apierrors.NewTimeoutError("no answer", 1)
			}
			return nil
		})
		c.until("00:16:00")
		if jobs, active := c.Names(client.KindFor[*batchv1.Job]()), c.cronJob("backup").Status.Active; len(jobs) != 1 || len(active) != 1 ||
			active[0].Name != jobs[0] {
			t.Errorf("Jobs %v, active %v", jobs, active)
		}
	})
}

// An active Job that the cache does not show yet is read live, and stays active. One that the CronJob no longer controls does not.
func TestActiveJobsThatTheCacheLacks(t *testing.T) { // CJ-16
	for _, orphan := range []bool{false, true} {
		begin(t, func(c *cluster) {
			c.until("00:12:30")
			job := newJob(backup(), time.Now(), zone{time.UTC})
			job.UID = "uid-job"
			if orphan {
				job.OwnerReferences = nil
			}
			c.FreezeWatches(client.KindFor[*batchv1.Job]())
			c.put(job)
			c.start(lists(job), concurrency(batchv1.ForbidConcurrent))
			c.until("00:15:30")
			if active := c.cronJob("backup").Status.Active; orphan == slices.ContainsFunc(active,
				func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
				t.Errorf("orphan %v: active %v", orphan, active)
			}
			if n := c.CountWrites("create"); (n > 0) != orphan {
				t.Errorf("orphan %v: %d Jobs were created beside it", orphan, n)
			}
		})
	}
}

// While the server refuses to delete the Jobs beyond the history limit, a schedule that is changed counts from the change and not from
// each retry, warnings are given once, and the deletion goes on to be tried.
func TestRefusedDeletionOfHistory(t *testing.T) { // CJ-61, CJ-94, CJ-96
	begin(t, func(c *cluster) {
		c.lasting(30 * time.Second)
		c.until("00:12:30")
		var refused atomic.Bool
		c.BeforeWrite(func(w clienttest.Write) error {
			if refused.Load() && w.Verb == "delete" {
				return apierrors.NewForbidden(batchv1.Resource("jobs"), w.Key.Name, errors.New("a webhook says no"))
			}
			return nil
		})
		refused.Store(true)
		c.start(limits(ptr.To[int32](0), nil))
		c.until("00:16:00")
		byHand := newJob(c.cronJob("backup"), time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC), zone{time.UTC})
		byHand.Name, byHand.Annotations = "by-hand", map[string]string{manualAnnotation: "manual"}
		c.put(byHand)
		c.edit("another schedule", every("18,25 * * * *"))
		c.until("00:26:00")
		if n := c.events("SuccessfulCreate"); n != 3 { // 00:15, 00:18, 00:25
			t.Errorf("%d Jobs were created", n)
		}
		if n := c.events("UnexpectedJob"); n != 1 {
			t.Errorf("%d events tell of the Job by hand", n)
		}
		if n := c.events("FailedDelete"); n < 10 {
			t.Errorf("%d deletions were tried", n)
		}
		refused.Store(false)
		c.until("00:28:00")
		if jobs := c.Names(client.KindFor[*batchv1.Job]()); !slices.Equal(jobs, []string{"by-hand"}) {
			t.Errorf("left: %v", jobs)
		}
	})
}

// A status that cannot be written is tried ever more rarely, and does not make a warning be given again.
func TestRefusedStatus(t *testing.T) { // CJ-96
	begin(t, func(c *cluster) {
		c.lasting(20 * time.Second)
		c.until("00:12:30")
		var tries atomic.Int64
		c.BeforeWrite(func(w clienttest.Write) error {
			if w.Kind == "CronJob" {
				tries.Add(1)
				return apierrors.NewForbidden(batchv1.Resource("cronjobs"), w.Key.Name, errors.New("a webhook says no"))
			}
			return nil
		})
		c.start(every("TZ=UTC */5 * * * *"))
		c.until("00:21:00")
		if created, warned := c.events("SuccessfulCreate"), c.events("UnsupportedSchedule"); created != 2 || warned != 1 {
			t.Errorf("%d Jobs, %d warnings", created, warned)
		}
		if tries.Load() < 10 || tries.Load() > 50 {
			t.Errorf("the status was tried %d times", tries.Load())
		}
	})
}

// Of several times in a minute the first one runs, also when its Job is gone before the minute is over.
func TestSeveralTimesInAMinute(t *testing.T) { // CJ-34
	begin(t, func(c *cluster) {
		c.lasting(25 * time.Second)
		c.until("00:12:30")
		c.start(every("@every 20s"), limits(ptr.To[int32](0), nil))
		c.until("00:22:30")
		created := map[string]bool{}
		for _, w := range c.Writes() {
			if w.Verb == "create" {
				if created[w.Key.Name] {
					t.Errorf("%s was created twice", w.Key.Name)
				}
				created[w.Key.Name] = true
			}
		}
		if len(created) != 11 {
			t.Errorf("%d Jobs were created", len(created))
		}
	})
}

// A CronJob that has taken the name of another one begins with its own creation, and does not inherit what that has run.
func TestSameName(t *testing.T) {
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		c.start(concurrency(batchv1.ForbidConcurrent))
		c.until("00:22:00")
		if c.events("SuccessfulCreate") != 1 || c.events("JobAlreadyActive") != 1 {
			t.Fatal(c.Log())
		}
		c.start(func(o *batchv1.CronJob) { o.UID = "uid-of-another" })
		c.until("00:24:00")
		if n := c.events("SuccessfulCreate"); n != 1 {
			t.Error("a time before its creation was made up for")
		}
		c.until("00:26:00")
		if n := c.events("SuccessfulCreate"); n != 2 {
			t.Errorf("%d Jobs were created", n)
		}
	})
}

// Each change of a Job that its CronJob looks at brings that into the queue, and no other.
func TestEnqueues(t *testing.T) { // CJ-3
	owner := backup()
	enqueues := enqueuedByJob(informers.Owners[*batchv1.CronJob]{Kind: kind().Kind, Get: func(_, name string) *batchv1.CronJob {
		if name == owner.Name {
			return owner
		}
		return nil
	}})
	before := run("10:05:00", started("10:05:00"))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          bool
	}{
		{"a new Job", nil, before, true},
		{"one that is gone", before, nil, true},
		{"a Job without owner", nil, run("10:05:00", orphan), false},
		{"one that is let go", before, run("10:05:00", started("10:05:00"), orphan), true},
		{"one that is taken", run("10:05:00", started("10:05:00"), orphan), before, true},
		{"one that has started", run("10:05:00"), before, true},
		{"one that is complete", before, run("10:05:00", started("10:05:00"), complete("10:06:00")), true},
		{"one that has failed", before, run("10:05:00", started("10:05:00"), failed), true},
		{"one that was completed at another time", run("10:05:00", complete("10:06:00")), run("10:05:00", complete("10:07:00")), true},
		{"one that is being deleted", before, run("10:05:00", started("10:05:00"), terminating), true},
		{"another one of its name", before, run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.UID = "another" }), true},
		{"its time changes", before, run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.Annotations = nil }), true},
		{"it comes to be one by hand", before,
			run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.Annotations[manualAnnotation] = "manual" }), true},
		{"its counters change", before,
			run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.Status.Active, job.ResourceVersion = 7, "8" }), false},
	} {
		if keys := enqueues(c.before, c.after); (len(keys) == 1) != c.want {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}

// While the server refuses to delete the Jobs beyond the history limit, each run is on time all the same (CJ-4, CJ-61).
func TestRunsAreOnTimeWhileDeletionsAreRefused(t *testing.T) {
	begin(t, func(c *cluster) {
		c.lasting(30 * time.Second)
		c.until("00:12:30")
		c.BeforeWrite(func(w clienttest.Write) error {
			if w.Verb == "delete" {
				return apierrors.NewForbidden(batchv1.Resource("jobs"), w.Key.Name, errors.New("a webhook says no"))
			}
			return nil
		})
		c.start(every("*/5 * * * *"), limits(ptr.To[int32](0), nil), deadline(10))
		c.until("01:31:00")
		if made, missed := c.events("SuccessfulCreate"), c.events("MissSchedule"); made != 16 || missed != 0 { // 00:15 to 01:30
			t.Errorf("%d Jobs were made, %d were missed", made, missed)
		}
	})
}
