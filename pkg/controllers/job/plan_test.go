package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		job     *batchv1.Job
		pods    []*corev1.Pod
		want    []string
		requeue time.Duration
	}{
		{"JOB-9 a finished Job: nothing", sum(1, condTrue(batchv1.JobComplete, "CompletionsReached")), nil, nil, 0},
		{"JOB-13 managed by another controller: nothing", sum(1, managedBy("example.com/queue")), nil, nil, 0},
		{"JOB-13 managed by this controller: as ever", sum(1, managedBy(batchv1.JobControllerName)), nil, []string{"create 1"}, 0},
		{"JOB-11 an unknown completion mode: an event, nothing else",
			sum(1, func(j *batchv1.Job) { *j.Spec.CompletionMode = "Odd" }), nil, []string{"event UnknownCompletionMode"}, 0},
		{"no selector: nothing", sum(1, func(j *batchv1.Job) { j.Spec.Selector = nil }), nil, nil, 0},
		{"JOB-18 a Job that is being deleted: nothing is created or deleted", sum(2, dying), list(pod("a")), nil, 0},
		{"JOB-16 an end was decided: what runs is deleted, the finalizer stays", // JOB-60
			sum(2, condTrue(batchv1.JobFailureTarget, "x")), list(pod("a"), pod("b", failed)), []string{"delete a"}, 0},
		{"JOB-45 it is a success: what runs is given up", sum(2, condTrue(batchv1.JobSuccessCriteriaMet, "x")),
			list(pod("a"), pod("b", failed)),
			[]string{"untrack a as observed, delete a"}, 0},
		{"JOB-12 an orphan is adopted and counts", sum(2), list(pod("a", orphan)), []string{"adopt a", "create 1"}, 0},
		{"JOB-12 so is one that has ended", sum(2), list(pod("a", orphan, succeeded)), []string{"adopt a", "create 1"}, 0},
		{"JOB-44 one that has ended without finalizer may have been counted: adopted, but not counted", sum(1),
			list(pod("a", orphan, succeeded, untracked)),
			[]string{"adopt a", "create 1"}, 0},
		{"JOB-12 a pod with other labels is released", sum(1), list(pod("a"), pod("b", relabelled)), []string{"release b"}, 0},
		{"an adopted pod that is one too many is deleted by the next reconcile", sum(1), list(pod("a"), pod("b", orphan)),
			[]string{"adopt b"}, 0},

		{"JOB-20 as many as completions are left", sum(5, counters(3, 0, batchv1.UncountedTerminatedPods{})), list(pod("a")),
			[]string{"create 1"}, 0},
		{"JOB-20 no more than parallelism", sum(5, parallel(2)), nil, []string{"create 2"}, 0},
		{"JOB-20 pods that have just succeeded count", sum(3, parallel(2)), list(pod("a", succeeded), pod("b", succeeded)),
			[]string{"create 1"}, 0},
		{"JOB-20 without completions: parallelism", sum(3, noCompletions), list(pod("a")), []string{"create 2"}, 0},
		{"JOB-20 without completions, one has succeeded: no more", sum(3, noCompletions), list(pod("a"), pod("b", succeeded)), nil, 0},
		{"JOB-24 at most 500 at a time", sum(800), nil, []string{"create 500"}, 0},
		{"JOB-44 a pod without finalizer that has ended is ignored", sum(1), list(pod("a", succeeded, untracked)), []string{"create 1"}, 0},

		{"JOB-40 a pod that is listed loses its finalizer",
			sum(2, counters(0, 0, batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}})),
			list(pod("a", succeeded), pod("b")), []string{"untrack a"}, 0},
		{"JOB-21 the surplus is deleted", sum(1), list(pod("a"), pod("b", pending)), []string{"untrack b as observed, delete b"}, 0},
		{"JOB-23 of one without finalizer only the pod", sum(1), list(pod("a"), pod("b", untracked)), []string{"delete b"}, 0},
		{"JOB-27 parallelism 0", sum(1, parallel(0)), list(pod("a")), []string{"untrack a as observed, delete a"}, 0},
		{"JOB-62 surplus pods of a complete Job", sum(1), list(pod("a", succeeded), pod("b")), []string{"untrack b as observed, delete b"},
			0},
		{"JOB-80 suspended: all pods", sum(2, suspend), list(pod("a"), pod("b", failed)), []string{"untrack a as observed, delete a"}, 0},

		{"JOB-28 a pod that is being deleted is replaced at once", sum(1), list(pod("a", terminating)), []string{"create 1"}, 0},
		{"JOB-28 with policy Failed only when it has ended", sum(1, late), list(pod("a", terminating)), nil, 0},
		{"JOB-28 then it is", sum(1, late), list(pod("a", terminating, failed)), []string{"create 1"}, 0},
		{"JOB-28 a pod failure policy implies that", sum(1, policy(onExit("Count", 1))), list(pod("a", terminating)), nil, 0},

		{"JOB-30 the first failure: ten seconds", sum(1), list(pod("a", failedWith(1, 4*time.Second))), nil, 6 * time.Second},
		{"JOB-30 which pass", sum(1), list(pod("a", failedWith(1, 10*time.Second))), []string{"create 1"}, 0},
		{"JOB-30 the third: forty", sum(1), list(pod("a", failedWith(1, time.Minute)), pod("b", failedWith(1, time.Minute)),
			pod("c", failedWith(1, 4*time.Second))), nil, 36 * time.Second},
		{"JOB-31 only failures since the latest success", sum(2),
			list(pod("a", failedWith(1, time.Minute)), pod("b", endWith(corev1.PodSucceeded, 0, 30*time.Second)),
				pod("c", failedWith(1, 4*time.Second))), nil, 6 * time.Second},
		{"JOB-123 failures that were counted by a previous leader count as well", sum(1, counters(0, 2, batchv1.UncountedTerminatedPods{})),
			list(pod("a", failedWith(1, time.Minute), untracked), pod("b", failedWith(1, 5*time.Second), untracked)), nil,
			15 * time.Second},
		{"JOB-30 a clock that is ahead by an hour: from the pod's creation", sum(1),
			list(pod("a", failedWith(1, -time.Hour), createdAgo(3*time.Second))), nil, 7 * time.Second},
		{"JOB-30 which passes", sum(1), list(pod("a", failedWith(1, -time.Hour), createdAgo(10*time.Second))), []string{"create 1"}, 0},
		{"JOB-30 by two seconds: from the pod's end", sum(1), list(pod("a", failedWith(1, -2*time.Second))), nil, 12 * time.Second},

		{"JOB-4 a Job with a deadline is looked at again when it is over", sum(1, deadline(3601)), list(pod("a")), nil, time.Second},
		{"JOB-55 a deadline of 0: no pod is started", sum(1, notStarted, deadline(0)), nil, nil, 0},
		{"JOB-55 the deadline is over: that is written before pods are deleted", sum(1, deadline(3600)), list(pod("a")), nil, 0},
		{"JOB-55 then they are", sum(1, deadline(3600), condTrue(batchv1.JobFailureTarget, "DeadlineExceeded")), list(pod("a")),
			[]string{"delete a"}, 0},
		{"JOB-82 not while it is suspended", sum(1, deadline(3600), suspend), nil, nil, 0},
		{"JOB-81 nor when it has just been resumed", sum(1, deadline(3600), condTrue(batchv1.JobSuspended, "")), nil, []string{"create 1"},
			0},
		{"JOB-53 too many failures", sum(2, limit(0)), list(pod("a"), pod("b", failed)), nil, 0},
		{"JOB-54 too many restarts", sum(2, limit(3), onFailure), list(pod("a", restarted(1)), pod("b", restarted(2)), pod("c", failed)),
			nil, 0},
		{"JOB-54 not yet", sum(3, limit(3), onFailure),
			list(pod("a", restarted(1)), pod("b", restarted(1)), pod("c", failedWith(1, time.Hour))), []string{"create 1"}, 0},
		{"JOB-54 limit 0, no restart", sum(2, limit(0), onFailure), list(pod("a", restarted(0))), []string{"create 1"}, 0},
		{"JOB-54 limit 0", sum(2, limit(0), onFailure), list(pod("a", restarted(1))), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planPods(now, snapshotOf(c.job, c.pods...))
			if got := lines(p.Steps); !slices.Equal(got, c.want) {
				t.Errorf("%s", cmp.Diff(c.want, got))
			}
			if p.Requeue != c.requeue {
				t.Errorf("again in %v, want %v", p.Requeue, c.requeue)
			}
			if p.Why == "" {
				t.Error("no reason")
			}
		})
	}
}

// snapshotOf is what is observed of a Job and its pods, and what that means.
func snapshotOf(j *batchv1.Job, pods ...*corev1.Pod) view {
	return newView(now, snapshot{Job: j, Pods: pods})
}

func TestPlanIndexed(t *testing.T) {
	perIndex := limitPerIndex(1)
	for _, c := range []struct {
		name    string
		job     *batchv1.Job
		pods    []*corev1.Pod
		want    []string
		requeue time.Duration
	}{
		{"JOB-66 the lowest indexes that are left",
			sum(6, parallel(3), byIndex, func(j *batchv1.Job) { j.Status.CompletedIndexes = "0,2" }),
			list(pod("a", index("1"))), []string{"create index 3", "create index 4"}, 0},
		{"JOB-66 one that has just succeeded is not run again", sum(2, byIndex), list(pod("a", index("0"), succeeded)),
			[]string{"create index 1"}, 0},
		{"JOB-28 one that is being deleted occupies its index with policy Failed", sum(3, byIndex, late),
			list(pod("a", index("0"), terminating)),
			[]string{"create index 1", "create index 2"}, 0},
		{"JOB-70 pods that no index has a use for", sum(2, byIndex),
			list(pod("a", index("0")), pod("b", index("7")), pod("c"), pod("d", index("0"), pending), pod("e", index("1"))),
			[]string{"untrack b as observed, delete b", "untrack c as observed, delete c", "untrack d as observed, delete d"}, 0},
		{"JOB-71 completions were lowered", sum(1, byIndex), list(pod("a", index("0")), pod("b", index("1"))),
			[]string{"untrack b as observed, delete b"}, 0},
		{"JOB-30 back-off of the Job", sum(2, byIndex), list(pod("a", index("0"), failedWith(1, 4*time.Second))), nil, 6 * time.Second},
		{"JOB-33 back-off of the index, JOB-124 whose place goes to a later one", sum(3, parallel(1), perIndex),
			list(pod("a", index("0"), failedWith(1, 4*time.Second))), []string{"create index 1"}, 6 * time.Second},
		{"JOB-33 no other index is left", sum(1, perIndex), list(pod("a", index("0"), failedWith(1, 4*time.Second))), nil, 6 * time.Second},
		{"JOB-33 it is over", sum(1, perIndex), list(pod("a", index("0"), failedWith(1, 11*time.Second))), []string{"create index 0"}, 0},
		{"JOB-33 of the second failure twice as long", sum(1, limitPerIndex(5)),
			list(pod("a", index("0"), failedBefore("1"), failedWith(1, 11*time.Second))), nil, 9 * time.Second},
		{"JOB-67 the failed pod is held while it waits, though it is listed", sum(1, limitPerIndex(5), counters(0, 0, failedList("a"))),
			list(pod("a", index("0"), failedWith(1, 4*time.Second))), nil, 6 * time.Second},
		{"JOB-67 not any more when it is replaced", sum(1, limitPerIndex(5), counters(0, 0, failedList("a"))),
			list(pod("a", index("0"), failed), pod("b", index("0"), failedBefore("1"))), []string{"untrack a"}, 0},
		{"JOB-67 or when the Job ends", sum(1, limitPerIndex(5), counters(0, 0, failedList("a")), condTrue(batchv1.JobFailureTarget, "x")),
			list(pod("a", index("0"), failed)), []string{"untrack a"}, 0},
		{"JOB-33 a clock that is ahead", sum(1, limitPerIndex(5)),
			list(pod("a", index("0"), failedWith(1, -time.Hour), createdAgo(3*time.Second))), nil, 7 * time.Second},
		{"JOB-68 an index that has failed for good is not run again", sum(2, perIndex),
			list(pod("a", index("0"), failedBefore("1"), failed)), []string{"create index 1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planPods(now, snapshotOf(c.job, c.pods...))
			got := lines(p.Steps)
			if strings.Contains(c.name, "JOB-70") {
				slices.Sort(got) // useless pods go in the order of their ranks
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s", cmp.Diff(c.want, got))
			}
			if p.Requeue != c.requeue {
				t.Errorf("again in %v, want %v", p.Requeue, c.requeue)
			}
		})
	}
}

// JOB-24: pods of indexes are created by one step, because the executor sends the objects of a step in batches of 1, 2, 4 and so on.
func TestIndexesStartSlowly(t *testing.T) {
	steps := planPods(now, snapshotOf(sum(10, byIndex))).Steps
	if len(steps) != 1 || len(steps[0].(plan.CreateAll).Objects) != 10 {
		t.Errorf("%v", lines(steps))
	}
}

// JOB-31, JOB-115: what the pods of a Job that always fails are told by the back-off.
func TestDelays(t *testing.T) {
	var got []string
	for n := range 10 {
		got = append(got, fmt.Sprint(delay(n)))
	}
	want := []string{"0s", "10s", "20s", "40s", "1m20s", "2m40s", "5m20s", "10m0s", "10m0s", "10m0s"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestVictims(t *testing.T) { // JOB-22
	readySince := func(d time.Duration) podEdit {
		return func(p *corev1.Pod) { ready(p); p.Status.Conditions[0].LastTransitionTime = ago(d) }
	}
	want := list(
		pod("without finalizer", untracked), pod("unassigned", pending),
		pod("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("not ready"), pod("ready shorter", readySince(time.Second)), pod("ready, restarted", readySince(time.Hour), restarted(3)),
		pod("ready, newer", readySince(time.Hour), createdAgo(time.Minute)),
		pod("ready, older", readySince(time.Hour), createdAgo(2*time.Hour)),
	)
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, rank)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("place %d: %s, want %s", i, got[i].Name, want[i].Name)
		}
	}
}
