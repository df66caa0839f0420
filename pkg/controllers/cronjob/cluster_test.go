package cronjob

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cluster is an API server, and what is around the controller: Jobs end some time after they were created.
type cluster struct {
	*testing.T
	*clienttest.Server
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
		c := &cluster{T: t, Server: clienttest.NewServer()}
		c.runs, c.fail = func(string) time.Duration { return 0 }, func(string) bool { return false }
		c.AfterWrite(c.wrote)
		entry := New(Options{})
		context := managertest.Context(t, c.Server, entry, managertest.Cache{Example: &batchv1.CronJob{}},
			managertest.Cache{Example: &batchv1.Job{}})
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
func (c *cluster) wrote(w clienttest.Write) error {
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
	kind, err := client.KindOf(o)
	if err != nil {
		c.Fatal(err)
	}
	m, _ := client.BuiltIn(kind)
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

func orphan(job *batchv1.Job) { job.OwnerReferences = nil }
