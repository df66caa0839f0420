package job

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// A diary tells what happens in the life of a Job, step by step. Whoever changes one should read what has changed.
func TestDiaries(t *testing.T) {
	for name, story := range map[string]func(*diary){
		"one-pod":          tellOnePod,
		"always-failing":   tellAlwaysFailing,
		"deadline":         tellDeadline,
		"suspended":        tellSuspended,
		"limit-per-index":  tellLimitPerIndex,
		"success-policy":   tellSuccessPolicy,
		"failure-policy":   tellFailurePolicy,
		"replacement-late": tellReplacementLate,
		"elastic":          tellElastic,
		"being-deleted":    tellBeingDeleted,
		"gang":             tellGang,
	} {
		t.Run(name, func(t *testing.T) {
			d := &diary{}
			story(d)
			plantest.Golden(t, filepath.Join("testdata", name+".txt"), d.text.String())
		})
	}
}

type diary struct {
	*world
	text strings.Builder
}

func (d *diary) begin(j *batchv1.Job) { d.world = newWorld(j) }

// tell notes what happens to the Job from outside, and then what the controller does.
func (d *diary) tell(what string, do ...func()) {
	for _, f := range do {
		f()
	}
	fmt.Fprintf(&d.text, "%s %s\n", d.Now().Format("15:04:05"), what)
	for _, line := range d.settle() {
		fmt.Fprintf(&d.text, "         %s\n", line)
	}
}

func (d *diary) wait(t time.Duration) { d.Sleep(t) }

// first returns the name of the oldest pod that runs.
func (d *diary) first() string { return d.running()[0].Name }

func (d *diary) succeed() { d.end(d.first(), corev1.PodSucceeded, 0) }

func (d *diary) fail() { d.end(d.first(), corev1.PodFailed, 1) }

func (d *diary) killed() { d.kill(); d.reap() }

func (d *diary) user(edit func(*batchv1.Job)) func() {
	return func() { plantest.Edit(d.World, "sum", edit) }
}

func tellOnePod(d *diary) { // JOB-114
	d.begin(sum(1, notStarted))
	d.tell("the Job is created")
	d.wait(3 * time.Second)
	d.tell("the pod runs", d.run)
	d.wait(time.Minute)
	d.tell("the pod succeeds", d.succeed)
}

func tellAlwaysFailing(d *diary) { // JOB-115
	d.begin(sum(1, notStarted))
	d.tell("the Job is created")
	for _, wait := range []time.Duration{10, 20, 40, 80, 160, 320, 0} {
		d.run()
		d.tell("the pod fails", d.fail)
		if wait > 0 {
			d.wait(wait*time.Second - 1)
			d.tell("the delay is nearly over")
			d.wait(1)
			d.tell("the delay is over")
		}
	}
}

func tellDeadline(d *diary) { // JOB-116
	d.begin(sum(1, notStarted, deadline(60)))
	d.tell("the Job is created")
	d.tell("the pod runs", d.run)
	d.wait(time.Minute)
	d.tell("the deadline is over")
	d.wait(5 * time.Second)
	d.tell("the pod is gone", d.killed)
}

func tellSuspended(d *diary) { // JOB-117
	d.begin(sum(3, notStarted))
	d.tell("the Job is created")
	d.tell("the pods run", d.run)
	d.tell("a user suspends the Job", d.user(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }))
	d.tell("the pods are gone", d.killed)
	d.wait(time.Hour)
	d.tell("a user resumes the Job", d.user(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }))
}

func tellLimitPerIndex(d *diary) { // JOB-118
	d.begin(sum(3, notStarted, limitPerIndex(1)))
	d.tell("the Job is created")
	d.run()
	second := func() { d.end(d.podOfIndex("1"), corev1.PodFailed, 1) }
	d.tell("the pod of index 1 fails", second)
	d.wait(10 * time.Second)
	d.tell("the delay is over")
	d.run()
	d.tell("the pod of index 1 fails again", second)
	d.tell("the pod of index 0 succeeds", func() { d.end(d.podOfIndex("0"), corev1.PodSucceeded, 0) })
	d.tell("the pod of index 2 succeeds", func() { d.end(d.podOfIndex("2"), corev1.PodSucceeded, 0) })
}

func tellSuccessPolicy(d *diary) { // JOB-76
	d.begin(sum(3, notStarted, byIndex, func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
	}))
	d.tell("the Job is created")
	d.run()
	d.tell("the pod of index 1 succeeds", func() { d.end(d.podOfIndex("1"), corev1.PodSucceeded, 0) })
	d.tell("the pod of index 0 succeeds", func() { d.end(d.podOfIndex("0"), corev1.PodSucceeded, 0) })
	d.tell("the other pod is gone", d.killed)
}

func tellFailurePolicy(d *diary) { // JOB-73
	d.begin(sum(3, notStarted,
		policy(onDisruption(batchv1.PodFailurePolicyActionIgnore), onExit(batchv1.PodFailurePolicyActionFailJob, 42))))
	d.tell("the Job is created")
	d.run()
	d.tell("a node is drained: a pod fails", func() {
		name := d.first()
		d.edit(name, disrupted)
		d.end(name, corev1.PodFailed, 137)
	})
	d.wait(10 * time.Second)
	d.tell("the delay is over")
	d.run()
	d.tell("a pod exits with 42", func() { d.end(d.first(), corev1.PodFailed, 42) })
	d.tell("the other pods are gone", d.killed)
}

func tellReplacementLate(d *diary) { // JOB-28
	d.begin(sum(1, notStarted, late))
	d.tell("the Job is created")
	d.run()
	d.tell("a user deletes the pod", func() {
		p := plantest.One[*corev1.Pod](d.World, d.first()).DeepCopy()
		d.Apply(planOf(deletePods(p)))
	})
	d.wait(30 * time.Second)
	d.tell("it has ended", d.killed)
}

func tellElastic(d *diary) { // JOB-71
	d.begin(sum(3, notStarted, byIndex))
	resize := func(n int32) func() {
		return d.user(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, &n })
	}
	d.tell("the Job is created")
	d.run()
	d.tell("the pod of index 2 succeeds", func() { d.end(d.podOfIndex("2"), corev1.PodSucceeded, 0) })
	d.tell("a user shrinks the Job to 2 indexes", resize(2))
	d.tell("and lets it grow to 4", resize(4))
}

func tellBeingDeleted(d *diary) { // JOB-18
	d.begin(sum(2, notStarted))
	d.tell("the Job is created")
	d.run()
	d.tell("a pod succeeds", d.succeed)
	d.tell("a user deletes the Job, which waits for its pods", d.user(func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(ago(0)) }))
}

func tellGang(d *diary) { // JOB-111
	d.begin(sum(4, notStarted, parallel(2), gang()))
	d.groups = true
	d.tell("the Job is created")
	d.tell("the pods run", d.run)
	d.tell("a user lets the gang grow to 3", d.user(parallel(3)))
	d.run()
	d.tell("somebody deletes the PodGroup", func() { d.Remove(plantest.One[*schedulingv1beta1.PodGroup](d.World, sumGroup)) })
	d.tell("a pod succeeds", d.succeed)
	d.tell("a user suspends the Job", d.user(suspend))
	d.tell("the pods are gone", d.killed)
	d.tell("a user resumes the Job", d.user(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }))
}
