package job

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// crowd is a Job with very many pods, all of which fail. It keeps no history, so that their number costs little.
type crowd struct {
	t       *testing.T
	job     *batchv1.Job
	pods    map[types.UID]*corev1.Pod
	now     time.Time
	created int
	largest int // the longest status that was written, in bytes
}

// pass is one reconcile, and reports whether it has written something.
func (c *crowd) pass() bool {
	var pods []*corev1.Pod
	for _, p := range c.pods {
		pods = append(pods, p)
	}
	s := snapshotOf(c.job, pods...)
	planned := planPods(c.now, s)
	var did plan.Outcome
	c.apply(planned.Steps, &did)
	reported := reportStatus(c.now, s, did)
	c.apply(reported.Steps, &did)
	return !planned.Empty() || !reported.Empty()
}

func (c *crowd) apply(steps []plan.Step, did *plan.Outcome) {
	for _, step := range steps {
		switch step := step.(type) {
		case plan.CreateAll:
			for _, o := range step.Objects {
				c.created++
				p := o.(*corev1.Pod).DeepCopy()
				p.Name, p.UID = nameOf(c.created), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.created))
				p.CreationTimestamp.Time, p.Spec.NodeName, p.Status.Phase = c.now, "node-1", corev1.PodRunning
				c.pods[p.UID] = p
				did.Results = append(did.Results, plan.Result{Verb: plan.Created, Object: p})
			}
		case plan.Change:
			if j, ok := step.New.(*batchv1.Job); ok {
				c.write(j)
				continue
			}
			did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: step.Old})
			c.pods[step.Old.GetUID()] = step.New.(*corev1.Pod)
		case plan.Each:
			for _, sequence := range step.Sequences {
				c.apply(sequence, did)
			}
		}
	}
}

// write stores a status, and looks at its size.
func (c *crowd) write(j *batchv1.Job) {
	c.job = j
	data, err := json.Marshal(j.Status)
	if err != nil {
		c.t.Fatal(err)
	}
	c.largest = max(c.largest, len(data))
	if n := len(j.Status.UncountedTerminatedPods.Failed); n > burst {
		c.t.Fatalf("the status lists %d pods and has %d bytes, when %d pods were created", n, len(data), c.created)
	}
}

// tracked is how many pods have their finalizer.
func (c *crowd) tracked() (n int) {
	for _, p := range c.pods {
		if workloads.Tracked(p) {
			n++
		}
	}
	return n
}

// fail ends all pods that run, and removes those that have ended before and are counted, as the garbage collector of pods does.
func (c *crowd) fail() {
	for uid, p := range c.pods {
		switch {
		case p.Status.Phase == corev1.PodRunning:
			p = p.DeepCopy()
			endWith(corev1.PodFailed, 1, now.Sub(c.now))(p)
			c.pods[uid] = p
		case !workloads.Tracked(p):
			delete(c.pods, uid)
		}
	}
}

// JOB-42, JOB-67, JOB-124: the size of a status has a bound, although the pods of 10,000 indexes that fail are held, and far more than the
// parallelism of the Job.
func TestStatusOfAJobWhoseIndexesFail(t *testing.T) {
	indexes := int32(plantest.Tries(10_000, 1000))
	j := sum(indexes, limitPerIndex(1), parallel(indexes/10))
	c := &crowd{t: t, job: j, pods: map[types.UID]*corev1.Pod{}, now: now}
	held := 0
	for workloads.JobFinished(c.job) == nil {
		for c.pass() {
		}
		if c.fail(); c.now.Sub(now) > time.Hour {
			t.Fatal("does not end: " + statusLine(batchv1.JobStatus{}, c.job.Status))
		}
		held = max(held, c.tracked())
		c.now = c.now.Add(5 * time.Second)
	}
	t.Logf("%d pods, at most %d with the finalizer when they had failed, the largest status has %d bytes", c.created, held, c.largest)
	if c.created != 2*int(indexes) || int(c.job.Status.Failed) != c.created ||
		!workloads.HasJobCondition(c.job.Status, batchv1.JobFailed) ||
		*c.job.Status.FailedIndexes != fmt.Sprintf("0-%d", indexes-1) {
		t.Errorf("%d pods were created: %s", c.created, statusLine(batchv1.JobStatus{}, c.job.Status))
	}
	if held < 2*int(indexes/10) {
		t.Errorf("at most %d pods were held: the test shows nothing", held)
	}
	if c.tracked() > 0 || c.largest > 64<<10 {
		t.Errorf("a pod has kept its finalizer, or a status of %d bytes", c.largest)
	}
}
