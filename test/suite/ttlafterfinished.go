package suite

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func ttlAfterFinishedEntry() Entry {
	return Entry{
		Controller: "ttl-after-finished-controller",
		Operations: map[string]Operation{
			// NAME seconds= image=: a Job that is deleted some time after it has finished; again: changes the time; seconds=-1: for ever
			"ttl": ttlJob,
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "ttl done-%s seconds=%d image=%s:1", app, g.IntN(20), workload.Pick(g, "good", "failing", "bad"))
			if g.IntN(2) == 0 {
				g.Add(soon, "ttl done-%s seconds=%d", app, workload.Pick(g, -1, 0, 3, 30))
			}
		}}},
		Settled: ttlSettled,
		Scenarios: []Scenario{{Name: "finished Jobs", Play: func(u *User) {
			for i := range 3 {
				u.Create(newTTLJob(fmt.Sprint("done-", i), "good:1", ptr.To(int32(i))))
			}
			u.finishJobs()
			AwaitAll[*batchv1.Job](u, 0, nil)
		}}},
		Malformed: map[string]string{
			"jobs/timeless": `{"apiVersion":"batch/v1","kind":"Job","metadata":${META},"spec":{"ttlSecondsAfterFinished":-2147483648},
				"status":{"conditions":[{"type":"Complete","status":"True"},{"type":"Failed","status":"True","lastTransitionTime":"9999-12-31T23:59:59Z"}]}}`,
		},
		Mutants: ttlMutants,
		Budgets: []Budget{{
			// the deletion, and the garbage collector's that lets each go
			Name: "50 Jobs have finished and go", Floor: floor.Writes{Other: 100},
			Prepare: func(u *User) {
				u.Each(50, func(i int) error { return create(u, newTTLJob(fmt.Sprint("done-", i), "good:1", new(int32))) })
			},
			Do: func(u *User) {
				u.finishJobs()
				AwaitAll[*batchv1.Job](u, 0, nil)
			},
		}},
	}
}

func newTTLJob(name, image string, seconds *int32) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: JobSpec(image)}
	job.Spec.TTLSecondsAfterFinished = seconds
	return job
}

// ttlJob makes a Job with a time to live, or changes that time.
func ttlJob(u *User, l script.Line) error {
	n, _ := l.Int("seconds")
	ttl := ptr.To(int32(n))
	if n < 0 {
		ttl = nil
	}
	change := func(job *batchv1.Job) { job.Spec.TTLSecondsAfterFinished = ttl }
	image, ok := l.Get("image")
	if !ok {
		return edit(u, l.Arg(0), change)
	}
	return apply(u, newTTLJob(l.Arg(0), image, ttl), change)
}

// ttlSettled checks that all Jobs are gone whose time to live is over, and that none was deleted that should not have been.
func ttlSettled(server *View) (wrong []string) {
	for _, job := range subjects[*batchv1.Job](server) {
		if at, ok := endOfLife(job); ok && time.Since(at) > 5*time.Second {
			wrong = append(wrong, fmt.Sprintf("the time to live of %s was over at %v", job.Name, at))
		}
	}
	for _, e := range server.writes("jobs") {
		before, ok := e.Before.(*batchv1.Job)
		job := e.Object.(*batchv1.Job)
		if !ok || before.DeletionTimestamp != nil || job.DeletionTimestamp == nil && !e.Deleted || len(job.OwnerReferences) > 0 {
			continue
		}
		if at, ok := endOfLife(before); !ok || e.Time.Before(at) { // TTL-24, TTL-26
			wrong = append(wrong, fmt.Sprintf("%s was deleted at %v, and its life ends at %v (%v)", job.Name, e.Time, at, ok))
		}
		if !slices.Contains(job.Finalizers, metav1.FinalizerDeleteDependents) { // TTL-27
			wrong = append(wrong, job.Name+" was not deleted in the foreground")
		}
	}
	return wrong
}

// endOfLife is when the time to live of a Job is over; false if it has none.
func endOfLife(job *batchv1.Job) (time.Time, bool) {
	finished := finishedJob(job)
	if finished == nil || job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	return finished.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second), true
}

const ttlPlan = "pkg/controllers/ttlafterfinished/plan.go"

var ttlMutants = []Mutant{
	{
		Name:   "a finished Job is deleted before its time to live is over",
		Edits:  []Edit{{ttlPlan, "case end.After(now):", "case end.After(now.Add(time.Hour)):"}},
		Script: withoutElection + "\n\t\t\tat 1s   ttl done seconds=30 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "the time to live counts in minutes",
		Edits: []Edit{{ttlPlan, "workloads.Seconds(*job.Spec.TTLSecondsAfterFinished)",
			"60 * workloads.Seconds(*job.Spec.TTLSecondsAfterFinished)"}},
		Script: withoutElection + "\n\t\t\tat 1s   ttl done seconds=20 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name:   "a finished Job that waits is forgotten",
		Edits:  []Edit{{ttlPlan, "Requeue: min(end.Sub(now), longestWait)}", "Requeue: min(now.Sub(now), longestWait)}"}},
		Script: withoutElection + "\n\t\t\tat 1s   ttl done seconds=20 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "failed Jobs live for ever",
		Edits: []Edit{{ttlPlan, "job.DeletionTimestamp == nil && workloads.JobFinished(job) != nil",
			"job.DeletionTimestamp == nil && workloads.JobFinished(job) != nil && workloads.JobFinished(job).Type != batchv1.JobFailed"}},
		Script: withoutElection + "\n\t\t\tat 1s   ttl done seconds=5 image=failing:1",
		Oracle: SettledOracle,
	},
	{
		Name:   "finished Jobs are deleted in the background",
		Edits:  []Edit{{ttlPlan, "metav1.DeletePropagationForeground", "metav1.DeletePropagationBackground"}},
		Script: withoutElection + "\n\t\t\tat 1s   ttl done seconds=5 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name:  "a Job is deleted that has changed meanwhile",
		Edits: []Edit{{ttlPlan, "CheckVersion: true, Why: why,", "CheckVersion: false, Why: why,"}},
		Script: withoutElection + `
			at 1s   ttl done seconds=30 image=good:1
			at 20s  fault m0 freeze jobs for=30s
			at 22s  ttl done seconds=-1`,
		Oracle: SettledOracle,
	},
}
