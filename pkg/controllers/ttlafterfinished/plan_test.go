package ttlafterfinished

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// done is a Job that has completed so long before epoch, with a time to live of a minute.
func done(ago time.Duration, edits ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "report", UID: "uid-report"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](60)},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: "True", LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))},
			{Type: batchv1.JobComplete, Status: "True", LastTransitionTime: metav1.NewTime(epoch.Add(-ago))},
		}},
	}
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func lives(seconds *int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.TTLSecondsAfterFinished = seconds }
}

func condition(kind batchv1.JobConditionType) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Status.Conditions[1].Type = kind }
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	timeless := func(job *batchv1.Job) { job.Status.Conditions[1].LastTransitionTime = metav1.Time{} }
	for _, c := range []struct {
		name    string
		job     *batchv1.Job
		deletes bool
		next    time.Duration
	}{
		{"a Job that is gone", nil, false, 0},
		{"TTL-24 the time to live is over", done(time.Minute), true, 0},
		{"TTL-24 it is not over", done(59 * time.Second), false, time.Second},
		{"TTL-21 a failed Job", done(time.Minute, condition(batchv1.JobFailed)), true, 0},
		{"TTL-21 a Job that is about to finish", done(time.Hour, condition(batchv1.JobFailureTarget)), false, 0},
		{"TTL-21 a suspended Job", done(time.Hour, condition(batchv1.JobSuspended)), false, 0},
		{"TTL-21 a Job without time to live", done(time.Hour, lives(nil)), false, 0},
		{"TTL-21 TTL-30 a Job that is being deleted",
			done(time.Hour, func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: epoch} }), false, 0},
		{"TTL-25 a Job that has finished in the future waits longer", done(-time.Hour), false, time.Hour},
		{"TTL-29 a time to live of zero", done(0, lives(ptr.To[int32](0))), true, 0},
		{"TTL-31 a Job that another controller manages",
			done(time.Minute, func(job *batchv1.Job) { job.Spec.ManagedBy = ptr.To("example.com/other") }), true, 0},
		{"TTL-37 the completion time counts where the condition has none", done(0, timeless, func(job *batchv1.Job) {
			job.Status.CompletionTime = &metav1.Time{Time: epoch.Add(-30 * time.Second)}
		}), false, 30 * time.Second},
		{"TTL-23 TTL-37 a Job that does not say when it has finished stays", done(0, timeless), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planDeletion(epoch, snapshot{Job: c.job})
			if p.Why == "" || p.Requeue != c.next {
				t.Errorf("%q, reconciles again after %v, want %v", p.Why, p.Requeue, c.next)
			}
			var want []plan.Step
			if c.deletes { // TTL-27, TTL-34
				want = []plan.Step{plan.Delete{
					Objects: []plan.Object{c.job}, Propagation: metav1.DeletePropagationForeground, CheckVersion: true,
					Why: p.Steps[0].(plan.Delete).Why,
				}}
			}
			if diff := cmp.Diff(want, p.Steps); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnqueues(t *testing.T) { // TTL-22
	job := done(0)
	deleted := done(0, func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: epoch} })
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new candidate", enqueuedByJob(nil, job), 1},
		{"a candidate that changes, or is delivered again", enqueuedByJob(job, job), 1},
		{"a Job that becomes one", enqueuedByJob(done(0, lives(nil)), job), 1},
		{"one whose time to live was taken away", enqueuedByJob(job, done(0, lives(nil))), 1},
		{"one that is being deleted since", enqueuedByJob(job, deleted), 1},
		{"another Job", enqueuedByJob(done(0, lives(nil)), done(0, lives(nil))), 0},
		{"a candidate that is gone, of which nothing is to be remembered", enqueuedByJob(job, nil), 1},
		{"one that was being deleted and is gone", enqueuedByJob(deleted, nil), 0},
		{"another one that is gone", enqueuedByJob(done(0, lives(nil)), nil), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Namespace: "shop", Name: "report"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

// draw is any Job, many of which have finished.
func draw(t *rapid.T) *batchv1.Job {
	job := done(time.Duration(rapid.IntRange(-100, 100).Draw(t, "seconds")) * time.Second)
	if rapid.Bool().Draw(t, "anything") {
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(job)
	}
	if rapid.Bool().Draw(t, "says only when it completed") {
		for i := range job.Status.Conditions {
			job.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		job.Status.CompletionTime = &metav1.Time{Time: epoch.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "ago")) * time.Second)}
	}
	return job
}

// Whatever the Job is: planning does not panic or change it, and it is only deleted if it has a time to live, has finished, and is not
// being deleted.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := draw(t)
		before := job.DeepCopy()
		p := planDeletion(epoch, snapshot{Job: job})
		if diff := cmp.Diff(before, job); diff != "" || p.Requeue < 0 {
			t.Errorf("requeue %v, changed: %s", p.Requeue, diff)
		}
		if !p.Empty() && (job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil) {
			t.Errorf("%s: %+v", p.Why, job)
		}
	})
}

// TTL-24: the time of the next look is the one at which the Job is deleted, unless it is so far away that it is looked at before.
func TestDeletedWhenDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{Job: draw(t)}
		p := planDeletion(epoch, s)
		if p.Requeue <= 0 || p.Requeue == longestWait {
			return
		}
		if early := planDeletion(epoch.Add(p.Requeue-1), s); !early.Empty() || early.Requeue != 1 {
			t.Errorf("a moment before: %s, again in %v", early.Why, early.Requeue)
		}
		if due := planDeletion(epoch.Add(p.Requeue), s); due.Empty() {
			t.Error("not deleted when it is due:", due.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{Job: draw(t), Logged: rapid.Bool().Draw(t, "told")}
		plantest.Same(t, planDeletion(epoch, s), planDeletion(epoch, plantest.Restored(t, s)))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		job := draw(t)
		cached := plantest.Kept(t, kept, job)
		plantest.Same(t, planDeletion(epoch, snapshot{Job: job}), planDeletion(epoch, snapshot{Job: cached}))
		if candidate(job) != candidate(cached) || candidate(job) && doubtful(epoch, job) != doubtful(epoch, cached) {
			t.Errorf("%+v, and from the cache %+v", job, cached)
		}
	})
}

// run runs the controller in virtual time, which begins at the epoch of Jobs, while a test works. It returns the log.
func run(t *testing.T, test func(s *clienttest.Server, put func(*batchv1.Job))) (log string) {
	return managertest.InVirtualTime(t, epoch, func(t *testing.T, server *clienttest.Server) {
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &batchv1.Job{}})
		managertest.Run(t, c, entry, func() { test(server, managertest.Putter[*batchv1.Job](t, server)) })
	})
}

// finishedNow is a Job that has finished at this moment.
func finishedNow(edits ...func(*batchv1.Job)) *batchv1.Job {
	return done(-time.Since(epoch), edits...)
}

// One request deletes a Job: the preconditions make a live read needless. A line of the log says what went and why.
func TestTTL27OneRequestAndOneLine(t *testing.T) { // TTL-24, TTL-26, TTL-27, TTL-34, TTL-35
	log := run(t, func(s *clienttest.Server, put func(*batchv1.Job)) {
		put(finishedNow())
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if n := len(s.Writes()); n != 0 {
			t.Errorf("%d writes too early", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		writes := s.Writes()
		if len(writes) != 1 || writes[0].Verb != "delete" {
			t.Fatal(s.Log())
		}
		o := writes[0].DeleteOptions
		if *o.PropagationPolicy != metav1.DeletePropagationForeground || *o.Preconditions.UID != "uid-report" ||
			o.Preconditions.ResourceVersion == nil {
			t.Errorf("%+v", o)
		}
	})
	for _, part := range []string{`"Deleted a finished Job because its time to live is over"`, `"name"="report"`, `"condition"="Complete"`,
		`"ttlSecondsAfterFinished"=60`} {
		if strings.Count(log, part) != 1 {
			t.Errorf("the log lacks %s: %s", part, log)
		}
	}
}

// A Job whose time to live is prolonged, taken away or shortened while it waits is treated by what it is now.
func TestChangesWhileWaiting(t *testing.T) { // TTL-24, TTL-26, TTL-29
	for _, c := range []struct {
		name    string
		ttl     *int32
		deleted time.Duration // after it has finished; zero for never
	}{
		{"prolonged", ptr.To[int32](600), 10 * time.Minute},
		{"shortened", ptr.To[int32](40), 40 * time.Second},
		{"taken away", nil, 0},
	} {
		run(t, func(s *clienttest.Server, put func(*batchv1.Job)) {
			job := finishedNow()
			at := job.Status.Conditions[1].LastTransitionTime.Time
			put(job)
			time.Sleep(30 * time.Second)
			lives(c.ttl)(job)
			put(job)
			var deleted time.Duration
			for deleted == 0 && time.Since(at) < time.Hour {
				if time.Sleep(time.Second); s.CountWrites("delete") > 0 {
					deleted = time.Since(at)
				}
			}
			if late := deleted - c.deleted; late < 0 || late > time.Second {
				t.Errorf("%s: deleted after %v, want %v", c.name, deleted, c.deleted)
			}
		})
	}
}

// A Job that has changed and of which the cache does not know is not deleted, nor logged as deleted; it is decided anew.
func TestStaleCache(t *testing.T) { // TTL-26, TTL-28
	log := run(t, func(s *clienttest.Server, put func(*batchv1.Job)) {
		job := finishedNow()
		put(job)
		s.FreezeWatches(client.KindFor[*batchv1.Job]())
		lives(nil)(job)
		put(job)
		time.Sleep(2 * time.Minute)
		s.ResumeWatches(client.KindFor[*batchv1.Job]())
		time.Sleep(10 * time.Minute)
		if len(s.Names(client.KindFor[*batchv1.Job]())) != 1 || s.CountWrites("refused delete") != 1 {
			t.Error(s.Log())
		}
	})
	if strings.Contains(log, "Deleted") {
		t.Error(log)
	}
}

func TestClockSkewIsLogged(t *testing.T) { // TTL-25
	log := run(t, func(s *clienttest.Server, put func(*batchv1.Job)) {
		job := finishedNow()
		job.Status.Conditions[1].LastTransitionTime = metav1.NewTime(time.Now().Add(time.Minute))
		put(job)
		job.Labels = map[string]string{"a": "b"}
		put(job)
		time.Sleep(119 * time.Second)
		if s.CountWrites("delete") != 0 {
			t.Error("deleted too early")
		}
	})
	if strings.Count(log, "clocks of two machines differ") != 1 {
		t.Error(log)
	}
}

// A Job that does not say when it has finished stays, and the log says so once, also if the Job changes.
func TestAJobWithoutAnyTimeIsLogged(t *testing.T) { // TTL-23, TTL-37
	log := run(t, func(s *clienttest.Server, put func(*batchv1.Job)) {
		job := finishedNow(condition(batchv1.JobFailed),
			func(job *batchv1.Job) { job.Status.Conditions[1].LastTransitionTime = metav1.Time{} })
		put(job)
		job.Labels = map[string]string{"a": "b"}
		put(job)
		time.Sleep(24 * time.Hour)
		if n := s.CountWrites("delete"); n != 0 {
			t.Errorf("%d deletions", n)
		}
	})
	if strings.Count(log, "does not say when it has finished") != 1 || !strings.Contains(log, `"name"="report"`) {
		t.Error(log)
	}
}

// Nothing is remembered of Jobs that are gone, whoever has deleted them, or that are no longer to be deleted.
func TestNothingIsRememberedOfJobsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(epoch))
		server, entry := clienttest.NewServer(), New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &batchv1.Job{}})
		runner, err := entry.Init(c)
		if err != nil {
			t.Fatal(err)
		}
		records := runner.(reconcile.Part).Records()[0]
		clienttest.Run(t, runner.Run, func() {
			put := func(name string, ago time.Duration, ttl *int32) {
				if _, err := server.Put(done(ago, lives(ttl),
					func(job *batchv1.Job) { job.Name, job.UID = name, types.UID(name) })); err != nil {
					t.Fatal(err)
				}
			}
			put("expired", time.Hour, ptr.To[int32](60))
			put("waits", -24*time.Hour, ptr.To[int32](60))
			put("stays", -24*time.Hour, ptr.To[int32](60))
			synctest.Wait()
			put("stays", -24*time.Hour, nil)
			synctest.Wait()
			if names := server.Names(client.KindFor[*batchv1.Job]()); len(names) != 2 {
				t.Fatal(names)
			}
			if _, ok := records.Get(plan.Key{Namespace: "shop", Name: "waits"}); !ok {
				t.Error("nothing says why the Job waits")
			}
			jobs := client.MappingFor[*batchv1.Job]()
			if err := server.Delete(t.Context(), jobs, plan.Key{Namespace: "shop", Name: "waits"}, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, name := range []string{"expired", "waits", "stays"} {
				if r, ok := records.Get(plan.Key{Namespace: "shop", Name: name}); ok {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	})
}

// BenchmarkPlan plans for a Job that waits.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{Job: done(0)}
	for b.Loop() {
		if p := planDeletion(epoch, s); p.Requeue == 0 {
			b.Fatal(p.Why)
		}
	}
}
