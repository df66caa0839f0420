package cronjob

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/api"
	"github.com/standalone-kcm/controller-manager/pkg/api/apitest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var update = flag.Bool("update", false, "write the diaries in testdata")

// cluster is an API server, and what is around the controller: Jobs end some time after they were created.
type cluster struct {
	*testing.T
	*apitest.Server
	runs func(name string) time.Duration // how long a Job runs; zero for ever
	fail func(name string) bool

	mu    sync.Mutex
	diary []string
}

// begin runs the controller in virtual time, while a test works on its cluster.
func begin(t *testing.T, test func(*cluster)) { beginAfter(t, 0, test) }

// beginAfter does so some time after the beginning of the year 2000.
func beginAfter(t *testing.T, wait time.Duration, test func(*cluster)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(wait)
		c := &cluster{T: t, Server: apitest.NewServer()}
		c.runs, c.fail = func(string) time.Duration { return 0 }, func(string) bool { return false }
		c.AfterWrite(c.wrote)
		entry := Controller()
		context := managertest.Context(t, c.Server, entry, managertest.Cache{Example: &batchv1.CronJob{}}, managertest.Cache{Example: &batchv1.Job{}})
		context.Access.Events = c
		managertest.Run(t, context, entry, func() { test(c) })
	})
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary = append(c.diary, time.Now().UTC().Format("15:04:05.0 ")+fmt.Sprintf(format, args...))
}

// Event implements record.EventRecorder.
func (c *cluster) Event(_ runtime.Object, kind, reason, message string) {
	c.note("event %s %s: %s", kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (c *cluster) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	c.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (c *cluster) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	c.Eventf(o, kind, reason, format, args...)
}

// wrote notes what the controller has written, and lets a Job that it has created end.
func (c *cluster) wrote(w apitest.Write) error {
	switch {
	case w.Kind == "CronJob":
		c.note("status: %s", statusWords(c.cronJob(w.Key.Name).Status))
	case w.Verb == "create":
		c.note("create Job %s", w.Key.Name)
		if lasts := c.runs(w.Key.Name); lasts > 0 {
			time.AfterFunc(lasts, func() { c.end(w.Key.Name) })
		}
	default:
		c.note("%s Job %s, %s", w.Verb, w.Key.Name, *w.DeleteOptions.PropagationPolicy)
	}
	return nil
}

func (c *cluster) get(o plan.Object, name string) bool {
	kind, err := api.KindOf(o)
	if err != nil {
		c.Fatal(err)
	}
	m, _ := api.BuiltIn(kind)
	return c.Get(c.Context(), m, plan.Key{Namespace: "shop", Name: name}, o) == nil
}

func (c *cluster) cronJob(name string) *batchv1.CronJob {
	o := &batchv1.CronJob{}
	c.get(o, name)
	return o
}

func (c *cluster) put(o plan.Object) {
	if _, err := c.Put(o); err != nil {
		c.Fatal(err)
	}
}

// end lets a Job finish.
func (c *cluster) end(name string) {
	job := &batchv1.Job{}
	if !c.get(job, name) {
		return
	}
	now := metav1.Now()
	condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now}
	if c.fail(name) {
		condition.Type = batchv1.JobFailed
	} else {
		job.Status.CompletionTime = &now
	}
	job.Status.StartTime, job.Status.Conditions = &job.CreationTimestamp, []batchv1.JobCondition{condition}
	c.note("(Job %s ends: %s)", name, condition.Type)
	c.put(job)
}

// edit is a change that a user makes.
func (c *cluster) edit(what string, edit edit) {
	o := c.cronJob("backup")
	edit(o)
	c.note("(user: %s)", what)
	c.put(o)
}

// start creates the CronJob.
func (c *cluster) start(edits ...edit) {
	edits = append(edits, func(o *batchv1.CronJob) { o.CreationTimestamp = metav1.Now().Rfc3339Copy() })
	c.note("(user: create the CronJob)")
	c.put(backup(edits...))
}

// until waits until a time of the first day.
func (c *cluster) until(text string) {
	at, err := time.Parse(time.DateTime, "2000-01-01 "+text)
	if err != nil {
		c.Fatal(err)
	}
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// lasting lets all Jobs run for so long.
func (c *cluster) lasting(d time.Duration) { c.runs = func(string) time.Duration { return d } }

// Each story leads to a diary in testdata, which a person can read.
func TestDiaries(t *testing.T) {
	for name, tell := range map[string]func(*cluster){
		"CJ-85 a run from its time to its end": func(c *cluster) {
			c.lasting(90 * time.Second)
			c.until("00:12:30")
			c.start()
			c.until("00:18:00")
		},
		"CJ-87 Forbid skips a time and makes up for it": func(c *cluster) {
			c.lasting(7 * time.Minute)
			c.until("00:12:30")
			c.start(concurrency(batchv1.ForbidConcurrent))
			c.until("00:26:00")
		},
		"CJ-88 Replace deletes the old Job and creates the new one": func(c *cluster) {
			c.until("00:12:30")
			c.start(concurrency(batchv1.ReplaceConcurrent))
			c.until("00:21:00")
		},
		"CJ-91 a missed run is reported once": func(c *cluster) {
			c.lasting(7 * time.Minute)
			c.until("00:12:30")
			c.start(concurrency(batchv1.ForbidConcurrent), deadline(60))
			c.until("00:23:00")
			c.edit("a label, which changes nothing", func(o *batchv1.CronJob) { o.Labels = map[string]string{"a": "b"} })
			c.until("00:24:00")
		},
		"CJ-33 suspended, and resumed after several times": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.until("00:12:30")
			c.start()
			c.until("00:17:00")
			c.edit("suspend", suspended)
			c.until("00:33:00")
			c.edit("resume", func(o *batchv1.CronJob) { o.Spec.Suspend = ptr.To(false) })
			c.until("00:36:00")
		},
		"CJ-60 the history limits": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.fail = func(name string) bool { return strings.HasSuffix(name, "5") }
			c.until("00:12:30")
			c.start(limits(ptr.To[int32](1), ptr.To[int32](0)), every("* * * * *"))
			c.until("00:16:40")
		},
		"CJ-2 CJ-94 a new schedule counts from its change": func(c *cluster) {
			c.lasting(30 * time.Second)
			c.until("00:12:30")
			c.start(every("0 12 * * *"))
			c.until("00:14:00")
			c.edit("a schedule of which 00:13 would have been missed", every("13,17 * * * *"))
			c.until("00:18:00")
		},
		"CJ-16 a running Job is deleted by hand": func(c *cluster) {
			c.until("00:12:30")
			c.start()
			c.until("00:15:30")
			c.note("(user: delete the Job)")
			jobs, _ := api.BuiltIn(jobKind())
			if err := c.Delete(c.Context(), jobs, plan.Key{Namespace: "shop", Name: c.Names(jobKind())[0]}, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
				c.Error(err)
			}
			c.until("00:16:00")
		},
		"CJ-54 a Job that cannot be created": func(c *cluster) {
			c.until("00:12:30")
			c.start()
			refused := 0
			c.BeforeWrite(func(w apitest.Write) error {
				if w.Verb == "create" {
					if refused++; refused <= 3 {
						return apierrors.NewForbidden(batchv1.Resource("jobs"), w.Key.Name, errors.New("exceeded quota"))
					}
				}
				return nil
			})
			c.until("00:16:00")
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, func(c *cluster) {
				tell(c)
				c.mu.Lock()
				defer c.mu.Unlock()
				got := strings.Join(c.diary, "\n") + "\n"
				file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// yearly are schedules with zones, above all those in which a clock change matters.
var yearly = []struct{ name, text, zone string }{
	{"quarters", "*/15 1-3 * * *", "Europe/Berlin"},
	{"six-hours", "0 */6 * * *", "UTC"},
	{"gap", "30 2 * * *", "America/New_York"},
	{"twice", "30 1 * * *", "America/New_York"},
	{"berlin", "15 2,3 * * *", "Europe/Berlin"},
	{"south", "0 2 * * *", "Australia/Sydney"},
	{"half-hour", "45 1 * * *", "Australia/Lord_Howe"},
	{"midnight", "0 0 * * *", "America/Havana"},
	{"workdays", "0 9 * * mon-fri", "Asia/Kathmandu"},
	{"either", "0 12 13 * fri", "Europe/London"},
	{"leap-day", "0 0 29 2 *", "UTC"},
	{"monthly", "@monthly", "Pacific/Chatham"},
	{"every", "@every 37h", "UTC"},
}

// expected are the names of the Jobs for all times of a schedule that the library names, one after the other.
func expected(t *testing.T, name, text, zone string, began, ends time.Time) (names []string) {
	schedule, err := parse(text, in(t, zone))
	if err != nil {
		t.Fatal(err)
	}
	for at := schedule.Next(began); at.Before(ends); at = schedule.Next(at) {
		names = append(names, fmt.Sprintf("%s-%d", name, at.Unix()/60))
	}
	return names
}

// Over two years there is one Job for each time that the library names, within a second of it, and no other, although the controller
// sleeps from one time to the next.
func TestTwoYears(t *testing.T) { // CJ-4, CJ-27, CJ-29, CJ-30, CJ-50, CJ-60
	for _, s := range yearly {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ends := began.AddDate(2, 0, 0)
			world := see(backup(every(s.text), func(o *batchv1.CronJob) {
				o.Name, o.Spec.TimeZone, o.CreationTimestamp = s.name, ptr.To(s.zone), metav1.NewTime(began)
			}))
			var got []string
			for now := began; now.Before(ends); now = time.Now() {
				p := planJobs(now, world)
				if job := createdJob(carriedOut(p.Steps)); job != nil {
					got = append(got, job.Name)
					if at, _ := scheduledTime(world.CronJob, job); now.Sub(at) > time.Second {
						t.Errorf("%s is created %v after its time", job.Name, now.Sub(at))
					}
				}
				world = carry(now, world)
				for i, job := range world.Jobs { // which the kubelets have run meanwhile
					world.Jobs[i] = job.DeepCopy()
					world.Jobs[i].Status = batchv1.JobStatus{
						CompletionTime: &metav1.Time{Time: now}, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}},
					}
				}
				world = carry(now, carry(now, world))
				if len(world.Jobs) > 3 {
					t.Fatalf("%d Jobs are kept", len(world.Jobs))
				}
				time.Sleep(p.Requeue)
			}
			if diff := cmp.Diff(expected(t, s.name, s.text, s.zone, began, ends), got); diff != "" || len(got) == 0 {
				t.Errorf("%s (-want +got):\n%s", s.name, diff)
			}
		})
	}
}

// The same with the whole controller, for two days in which clocks change: it wakes up by itself.
func TestClockChanges(t *testing.T) { // CJ-4, CJ-29
	for _, from := range []string{"2000-03-25 12:00:00", "2000-04-01 20:00:00", "2000-10-28 12:00:00"} {
		date, err := time.Parse(time.DateTime, from)
		if err != nil {
			t.Fatal(err)
		}
		beginAfter(t, date.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), func(c *cluster) {
			began := time.Now().Truncate(time.Second)
			ends := began.AddDate(0, 0, 2)
			var mu sync.Mutex
			got := map[string][]string{}
			c.AfterWrite(func(w apitest.Write) error {
				if w.Verb == "create" {
					mu.Lock()
					defer mu.Unlock()
					name := w.Key.Name[:strings.LastIndex(w.Key.Name, "-")]
					got[name] = append(got[name], w.Key.Name)
				}
				return nil
			})
			for _, s := range yearly {
				c.put(backup(every(s.text), func(o *batchv1.CronJob) {
					o.Name, o.UID, o.Spec.TimeZone, o.CreationTimestamp = s.name, "", ptr.To(s.zone), metav1.NewTime(began)
				}))
			}
			time.Sleep(time.Until(ends))
			synctest.Wait()
			for _, s := range yearly {
				if diff := cmp.Diff(expected(t, s.name, s.text, s.zone, began, ends), got[s.name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}

// All Jobs of ten thousand CronJobs that are due at the same minute are created at once, each by one request, before the statuses are
// written, and nothing is refused.
func TestTenThousandAtTheSameMinute(t *testing.T) {
	const n = 10_000
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		for i := range n {
			c.put(backup(func(o *batchv1.CronJob) {
				o.Name, o.UID = fmt.Sprintf("backup-%05d", i), ""
				o.CreationTimestamp = metav1.Now().Rfc3339Copy()
			}))
		}
		c.until("00:15:01")
		if jobs := len(c.Names(jobKind())); jobs != n {
			t.Errorf("%d Jobs within a second", jobs)
		}
		if statuses := c.CountWrites("update CronJob"); statuses > n/10 {
			t.Errorf("%d statuses were written before all Jobs were created", statuses)
		}
		c.until("00:16:00")
		if statuses, all, refused := c.CountWrites("update CronJob"), len(c.Writes()), c.CountWrites("refused"); statuses != n || all != 2*n || refused > 0 {
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
		if n := len(c.Names(jobKind())); n != 2 || c.CountWrites("delete") > 0 || c.CountWrites("create") != 1 || c.CountWrites("refused") > 0 {
			t.Errorf("%d Jobs: %v", n, c.Log())
		}
	})
}

// Job names are fixed, so a Job whose creation was not answered is not created again.
func TestCrashAfterCreation(t *testing.T) { // CJ-50, CJ-53
	begin(t, func(c *cluster) {
		c.until("00:12:30")
		c.start()
		c.AfterWrite(func(w apitest.Write) error {
			if w.Verb == "create" {
				c.AfterWrite(c.wrote)
				return apierrors.NewTimeoutError("no answer", 1)
			}
			return nil
		})
		c.until("00:16:00")
		if jobs, active := c.Names(jobKind()), c.cronJob("backup").Status.Active; len(jobs) != 1 || len(active) != 1 || active[0].Name != jobs[0] {
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
			c.FreezeWatches(jobKind())
			c.put(job)
			c.start(lists(job), concurrency(batchv1.ForbidConcurrent))
			c.until("00:15:30")
			if active := c.cronJob("backup").Status.Active; orphan == slices.ContainsFunc(active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
				t.Errorf("orphan %v: active %v", orphan, active)
			}
			if n := c.CountWrites("create"); (n > 0) != orphan {
				t.Errorf("orphan %v: %d Jobs were created beside it", orphan, n)
			}
		})
	}
}

// events counts the events of the diary that have a reason.
func (c *cluster) events(reason string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.diary {
		if strings.Contains(line, " "+reason+": ") {
			n++
		}
	}
	return n
}

// While the server refuses to delete the Jobs beyond the history limit, a schedule that is changed counts from the change and not from
// each retry, warnings are given once, and the deletion goes on to be tried.
func TestRefusedDeletionOfHistory(t *testing.T) { // CJ-61, CJ-94, CJ-96
	begin(t, func(c *cluster) {
		c.lasting(30 * time.Second)
		c.until("00:12:30")
		var refused atomic.Bool
		c.BeforeWrite(func(w apitest.Write) error {
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
		if jobs := c.Names(jobKind()); !slices.Equal(jobs, []string{"by-hand"}) {
			t.Errorf("left: %v", jobs)
		}
	})
}

// A status that cannot be written is tried ever more rarely, and does not make a warning be given again.
func TestRefusedStatus(t *testing.T) { // CJ-96
	begin(t, func(c *cluster) {
		c.lasting(20 * time.Second)
		c.until("00:12:30")
		tries := 0
		c.BeforeWrite(func(w apitest.Write) error {
			if w.Kind == "CronJob" {
				tries++
				return apierrors.NewForbidden(batchv1.Resource("cronjobs"), w.Key.Name, errors.New("a webhook says no"))
			}
			return nil
		})
		c.start(every("TZ=UTC */5 * * * *"))
		c.until("00:21:00")
		if created, warned := c.events("SuccessfulCreate"), c.events("UnsupportedSchedule"); created != 2 || warned != 1 {
			t.Errorf("%d Jobs, %d warnings", created, warned)
		}
		if tries < 10 || tries > 50 {
			t.Errorf("the status was tried %d times", tries)
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
		{"it comes to be one by hand", before, run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.Annotations[manualAnnotation] = "manual" }), true},
		{"its counters change", before, run("10:05:00", started("10:05:00"), func(job *batchv1.Job) { job.Status.Active, job.ResourceVersion = 7, "8" }), false},
	} {
		if keys := enqueues(c.before, c.after); (len(keys) == 1) != c.want {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}

func orphan(job *batchv1.Job) { job.OwnerReferences = nil }
