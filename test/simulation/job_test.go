package simulation

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// jobRun is what became of a Job.
type jobRun struct {
	took        time.Duration // from its creation to its end
	lag         time.Duration // from the end of its last pod to that
	statuses    int           // writes of its status
	writes      int           // all, without events and leases
	conflicts   int
	pods        int // created
	mostAtATime int // active
	finalStatus batchv1.JobStatus
}

// runJob runs a Job whose pods succeed after up to ten seconds.
func runJob(t *testing.T, completions, parallelism int32, edit func(*batchv1.Job)) (run jobRun) {
	inBubble(t, 1, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(script.Script{Seed: 1}, controllers.Registry)
		for _, node := range []string{"node-0", "node-1"} {
			if err := w.cluster.AddNode(node); err != nil {
				t.Fatal(err)
			}
		}
		client := &apiserver.Client{Server: w.server, Name: "m0.1", Network: newLink(1, time.Millisecond)}
		ended, played := make(chan error), make(chan struct{})
		go func() {
			ended <- w.processes[0].run(ctx, client)
		}()
		go func() { defer close(played); w.cluster.Run(ctx) }()
		defer func() { cancel(); <-ended; <-played }()
		time.Sleep(time.Minute)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "sum"}, Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallelism, Template: suite.Template("sum", actors.Done+":1"),
		}}
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		edit(j)
		if _, err := w.server.Do(apiserver.Write{By: suite.By, Verb: apiserver.Create, Object: j}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for deadline := time.Now().Add(time.Hour); run.finalStatus.CompletionTime == nil; time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				t.Fatalf("after an hour: %+v", run.finalStatus)
			}
			run.finalStatus = apiserver.All[*batchv1.Job](w.server)[0].Status
		}
		time.Sleep(time.Minute)
		run.read(w, began)
	})
	return run
}

// read takes the figures from the record of a run that is over.
func (run *jobRun) read(w *world, began time.Time) {
	var last time.Time // when a pod ended
	active := map[string]bool{}
	for _, e := range w.server.Since("pods", 0) {
		p := e.Object.(*corev1.Pod)
		before, _ := e.Before.(*corev1.Pod)
		if before == nil {
			run.pods++
		}
		over := p.Status.Phase == corev1.PodSucceeded
		if over && before != nil && before.Status.Phase != corev1.PodSucceeded {
			last = e.Time
		}
		delete(active, p.Name)
		if !over && p.DeletionTimestamp == nil {
			active[p.Name] = true
		}
		run.mostAtATime = max(run.mostAtATime, len(active))
	}
	for _, e := range w.server.Since("jobs", 0) {
		j, before := e.Object.(*batchv1.Job), e.Before
		if old, ok := before.(*batchv1.Job); ok && old.Status.CompletionTime == nil && j.Status.CompletionTime != nil {
			run.took, run.lag = e.Time.Sub(began), e.Time.Sub(last)
		}
	}
	for _, q := range w.record.requests {
		if !slices.Contains([]string{"create", "update", "patch", "delete"}, q.Verb) || q.Resource == "events" || q.Resource == "leases" ||
			q.Received.Before(began) {
			continue
		}
		run.writes++
		if q.Resource == "jobs" {
			run.statuses++
		}
		if q.Code == http.StatusConflict {
			run.conflicts++
		}
	}
}

// A Job of many pods takes few status writes, at most one a second and two, nearly no other writes than each pod needs, and no
// conflicts.
func TestWritesOfALargeJob(t *testing.T) {
	skipLarge(t)
	const completions, parallelism = 1000, 100
	for name, edit := range map[string]func(*batchv1.Job){
		"non-indexed": func(*batchv1.Job) {},
		"indexed": func(j *batchv1.Job) {
			mode := batchv1.IndexedCompletion
			j.Spec.CompletionMode = &mode
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := runJob(t, completions, parallelism, edit)
			const floor = 2 * completions // each pod is created, and loses its finalizer
			t.Logf("%d pods in %v; %d status writes; %d writes, floor %d (x%.3f); %d conflicts; complete %v after the last pod", run.pods,
				run.took,
				run.statuses, run.writes, floor, float64(run.writes)/floor, run.conflicts, run.lag)
			if most := int(run.took/time.Second) + 2; run.statuses > most {
				t.Errorf("%d status writes in %v, at most %d", run.statuses, run.took, most)
			}
			if run.writes > floor*11/10 || run.conflicts > 0 {
				t.Errorf("%d writes, floor %d, %d conflicts", run.writes, floor, run.conflicts)
			}
			if run.finalStatus.Succeeded != completions || run.finalStatus.Failed != 0 || run.pods != completions ||
				run.mostAtATime > parallelism {
				t.Errorf("%d pods, at most %d at a time; %+v", run.pods, run.mostAtATime, run.finalStatus)
			}
		})
	}
}

// A Job of one pod is complete half a second after the pod has succeeded, with four writes of its status at most.
func TestASmallJobEndsAtOnce(t *testing.T) {
	run := runJob(t, 1, 1, func(*batchv1.Job) {})
	t.Logf("complete %v after its pod, %d status writes", run.lag, run.statuses)
	if run.lag > 500*time.Millisecond || run.statuses > 4 || run.conflicts > 0 {
		t.Errorf("complete %v after its pod, %d status writes, %d conflicts", run.lag, run.statuses, run.conflicts)
	}
}
