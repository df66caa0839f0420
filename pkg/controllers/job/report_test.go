package job

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func uids(of ...types.UID) []types.UID { return of }

func succeededList(of ...types.UID) batchv1.UncountedTerminatedPods {
	return batchv1.UncountedTerminatedPods{Succeeded: of}
}

func failedList(of ...types.UID) batchv1.UncountedTerminatedPods {
	return batchv1.UncountedTerminatedPods{Failed: of}
}

func TestReport(t *testing.T) {
	none := batchv1.UncountedTerminatedPods{}
	active := func(n int32) jobEdit { return func(j *batchv1.Job) { j.Status.Active = n } }
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want []string
	}{
		{"JOB-86 nothing has changed", sum(1, active(1)), list(pod("a")), nil},
		{"JOB-14 active, ready and terminating", sum(4),
			list(pod("a"), pod("b", ready), pod("c", terminating), pod("d", terminating, failed), pod("e", ready, terminating, untracked)),
			[]string{"status active=2 ready=1 terminating=2 uncounted.failed=2", "untrack c", "untrack d"}},
		{"JOB-15 it starts", sum(1, notStarted), nil, []string{"status started=true"}},
		{"JOB-40 pods that have ended are listed first", sum(3), list(pod("a", succeeded), pod("b", failed), pod("c")),
			[]string{"status active=1 uncounted.succeeded=1 uncounted.failed=1", "untrack a", "untrack b"}},
		{"JOB-40 listed, with finalizer: nothing, the plan removes it", sum(3, active(1), counters(0, 0, succeededList("a"))),
			list(pod("a", succeeded), pod("c")), nil},
		{"JOB-41 listed, without finalizer: counted", sum(3, active(1), counters(1, 1, succeededList("a"))),
			list(pod("a", succeeded, untracked), pod("c")),
			[]string{"status active=1 succeeded=2 failed=1"}},
		{"JOB-41 listed, gone: counted", sum(3, active(1), counters(1, 1, failedList("a"))), list(pod("c")),
			[]string{"status active=1 succeeded=1 failed=2"}},
		{"JOB-41 one is counted and another one listed by the same write", sum(4, active(1), counters(0, 0, succeededList("a"))),
			list(pod("a", succeeded, untracked), pod("b", succeeded), pod("c")),
			[]string{"status active=1 succeeded=1 uncounted.succeeded=1", "untrack b"}},
		{"JOB-44 without finalizer, not listed: counted before, or not to be", sum(2, active(1), counters(0, 1, none)),
			list(pod("a", failed, untracked), pod("c")), nil},
		{"JOB-44 in both lists: it has failed",
			sum(2, active(1), counters(0, 0, batchv1.UncountedTerminatedPods{Succeeded: uids("a"), Failed: uids("a", "a")})),
			list(pod("c")),
			[]string{"status active=1 failed=1"}},
		{"JOB-44 listed as failed, has succeeded: it has failed", sum(2, active(1), counters(0, 0, failedList("a"))),
			list(pod("a", succeeded, untracked), pod("c")),
			[]string{"status active=1 failed=1"}},
		{"JOB-40 listed, made an orphan, with finalizer: not counted yet", sum(2, dying, active(1), counters(0, 0, failedList("a"))),
			list(pod("a", failed, orphan), pod("c", untracked)), nil},
		{"JOB-40 listed, relabelled, with finalizer: not counted yet", sum(2, active(1), counters(0, 0, failedList("a"))),
			list(pod("a", failed, relabelled), pod("c")), nil},
		{"JOB-42 at most 500", sum(900, active(0)), many(700, succeeded),
			append([]string{"status uncounted.succeeded=500"}, untracks(500)...)},
		{"JOB-42 at most 500, with those that are listed and keep their finalizer",
			sum(900, limit(1000), counters(0, 0, failedList(uidsOf(many(499, failed))...))),
			append(many(499, failed), pod("x", failed), pod("y", failed)), []string{"status uncounted.failed=500", "untrack x"}},
		{"JOB-46 ignored by the policy", sum(2, active(1), policy(onDisruption("Ignore"))), list(pod("a", failed, disrupted), pod("c")),
			[]string{"untrack a"}},
		{"JOB-73 counted by the policy", sum(2, active(1), policy(onDisruption("Ignore"), onExit("Count", 1))),
			list(pod("a", failed), pod("c")),
			[]string{"status active=1 uncounted.failed=1", "untrack a"}},
		{"JOB-28 with policy Failed a pod that is being deleted does not count", sum(1, late), list(pod("a", terminating)),
			[]string{"status terminating=1"}},

		{"JOB-59 completions are reached", sum(1), list(pod("a", succeeded)),
			[]string{"status uncounted.succeeded=1 SuccessCriteriaMet=True", "untrack a"}},
		{"JOB-59 not while a pod is active", sum(1, active(1)), list(pod("a", succeeded), pod("b")),
			[]string{"status active=1 uncounted.succeeded=1", "untrack a"}},
		{"JOB-59 without completions: one has succeeded, none is active", sum(2, noCompletions),
			list(pod("a", succeeded), pod("b", failed, untracked)),
			[]string{"status uncounted.succeeded=1 SuccessCriteriaMet=True", "untrack a"}},
		{"JOB-59 of no completions", sum(0), nil, []string{"status SuccessCriteriaMet=True Complete=True", "event Completed"}},
		{"JOB-61 all are counted: complete", sum(1, counters(0, 0, succeededList("a")), condTrue(batchv1.JobSuccessCriteriaMet, "x")),
			list(pod("a", succeeded, untracked)),
			[]string{"status succeeded=1 SuccessCriteriaMet=True Complete=True", "event Completed"}},
		{"JOB-93 too many", sum(1, counters(2, 0, none), condTrue(batchv1.JobSuccessCriteriaMet, "x")), nil,
			[]string{"status succeeded=2 SuccessCriteriaMet=True Complete=True", "event TooManySucceededPods", "event Completed"}},
		{"JOB-50 not while a pod terminates",
			sum(1, counters(1, 0, none), condTrue(batchv1.JobSuccessCriteriaMet, "x"),
				func(j *batchv1.Job) { j.Status.Terminating = ptr.To[int32](1) }),
			list(pod("a", terminating, untracked)), nil},
		{"JOB-50 not while a pod has its finalizer", sum(1, counters(1, 0, none), condTrue(batchv1.JobSuccessCriteriaMet, "x")),
			list(pod("a", failed)),
			[]string{"status succeeded=1 uncounted.failed=1 SuccessCriteriaMet=True", "untrack a"}},
		{"JOB-45 after success only what has really failed counts",
			sum(1, counters(1, 0, none), condTrue(batchv1.JobSuccessCriteriaMet, "x")), list(pod("a", terminating)),
			[]string{"status terminating=1 succeeded=1 SuccessCriteriaMet=True", "untrack a as observed"}},
		{"JOB-45 after failure all count", sum(1, late, condTrue(batchv1.JobFailureTarget, "x")), list(pod("a", terminating)),
			[]string{"status terminating=1 uncounted.failed=1 FailureTarget=True", "untrack a"}},
		{"JOB-52 a failed pod without finalizer fails the Job", sum(2, active(1), policy(onExit("FailJob", 42))),
			list(pod("a"), pod("b", failedWith(42, 0), untracked)), []string{"status active=1 FailureTarget=True"}},
		{"JOB-80 of a suspended Job, a pod that was deleted before it had a node is let go, and does not count",
			sum(2, late, suspend, condTrue(batchv1.JobSuspended, "x"), noStart),
			list(pod("a", pending, terminating), pod("b", terminating)),
			[]string{"status terminating=1 Suspended=True", "untrack a as observed"}},
		{"JOB-28 it is not while the Job runs", sum(2, late), list(pod("a", pending, terminating)), []string{"status terminating=1"}},
		{"JOB-53 too many failures", sum(1, limit(1), counters(0, 1, none)), list(pod("a", failed)),
			[]string{"status failed=1 uncounted.failed=1 FailureTarget=True", "untrack a"}},
		{"JOB-53 exactly the limit", sum(1, limit(1)), list(pod("a", failed)), []string{"status uncounted.failed=1", "untrack a"}},
		{"JOB-92 failed for good", sum(1, limit(0), counters(0, 1, none), condTrue(batchv1.JobFailureTarget, "BackoffLimitExceeded")), nil,
			[]string{"status failed=1 FailureTarget=True Failed=True", "event BackoffLimitExceeded"}},
		{"JOB-60 an end is recorded before pods are deleted, which do not count until then",
			sum(2, active(1), policy(onExit("FailJob", 42))),
			list(pod("a"), pod("b", failedWith(42, 0))), []string{"status active=1 uncounted.failed=1 FailureTarget=True", "untrack b"}},
		{"JOB-51 what has failed stays so, though its completions are reached",
			sum(1, counters(1, 0, none), condTrue(batchv1.JobFailureTarget, "x")), nil,
			[]string{"status succeeded=1 FailureTarget=True Failed=True", "event x"}},
		{"JOB-54 too many restarts", sum(2, active(1), limit(1), onFailure), list(pod("a", restarted(1))),
			[]string{"status active=1 FailureTarget=True"}},
		{"JOB-55 the deadline is over", sum(1, active(1), deadline(3600)), list(pod("a")), []string{"status active=1 FailureTarget=True"}},

		{"JOB-55 a deadline of 0", sum(1, notStarted, deadline(0)), nil,
			[]string{"status started=true FailureTarget=True Failed=True", "event DeadlineExceeded"}},

		{"JOB-80 suspended", sum(1, suspend), nil, []string{"status started=false Suspended=True", "event Suspended"}},
		{"JOB-80 not while a pod is active", sum(1, suspend, active(1)), list(pod("a")), nil},
		{"JOB-82 counters are kept", sum(3, suspend, counters(1, 1, none)), nil,
			[]string{"status succeeded=1 failed=1 started=false Suspended=True", "event Suspended"}},
		{"JOB-81 resumed", sum(1, condTrue(batchv1.JobSuspended, "x")), nil,
			[]string{"status started=true Suspended=False", "event Resumed"}},
		{"JOB-64 a suspended Job that ends has started",
			sum(1, suspend, counters(1, 0, none), condTrue(batchv1.JobSuspended, "x"), condTrue(batchv1.JobSuccessCriteriaMet, "x"),
				noStart), nil,
			[]string{"status succeeded=1 started=true Suspended=True SuccessCriteriaMet=True Complete=True", "event Completed"}},
		{"JOB-64 so has one that fails",
			sum(1, suspend, counters(0, 1, none), condTrue(batchv1.JobFailureTarget, "PodFailurePolicy"), noStart), nil,
			[]string{"status failed=1 started=true FailureTarget=True Failed=True", "event PodFailurePolicy"}},
		{"JOB-64 but for one of no completions", sum(0, suspend, condTrue(batchv1.JobSuccessCriteriaMet, "x"), noStart), nil,
			[]string{"status SuccessCriteriaMet=True Complete=True", "event Completed"}},
		{"JOB-18 being deleted: not that of a pod with other labels either", sum(3, dying, active(1)),
			list(pod("a"), pod("b", relabelled), pod("c", relabelled, untracked)),
			[]string{"untrack a", "untrack b"}},
		{"JOB-18 being deleted: pods are counted, though others run and the Job has failed", sum(3, dying, limit(0), active(1)),
			list(pod("a"), pod("b", failed), pod("c", succeeded)),
			[]string{"status active=1 uncounted.succeeded=1 uncounted.failed=2 FailureTarget=True", "untrack a", "untrack b", "untrack c"}},
		{"JOB-18 being deleted: no finalizer stays", sum(3, dying, active(1)), list(pod("a"), pod("b", succeeded)),
			[]string{"status active=1 uncounted.succeeded=1", "untrack a", "untrack b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lines(reportStatus(now, snapshotOf(c.job, c.pods...), plan.Outcome{}).Steps)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s", cmp.Diff(c.want, got))
			}
		})
	}
}

func many(n int, edits ...podEdit) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, pod(nameOf(i), edits...))
	}
	return pods
}

func uidsOf(pods []*corev1.Pod) (all []types.UID) {
	for _, p := range pods {
		all = append(all, p.UID)
	}
	return all
}

func nameOf(i int) string { return fmt.Sprintf("p%05d", i) }

func untracks(n int) (lines []string) {
	for i := range n {
		lines = append(lines, "untrack "+nameOf(i))
	}
	return lines
}

func TestReportIndexed(t *testing.T) {
	done := func(completed, lost string) jobEdit {
		return func(j *batchv1.Job) {
			j.Status.CompletedIndexes = completed
			j.Status.Succeeded = int32(parseIndexes(completed, 100).count())
			if workloads.HasLimitPerIndex(j) {
				j.Status.FailedIndexes = &lost
			}
		}
	}
	oneActive := func(j *batchv1.Job) { j.Status.Active = 1 }
	firstSucceeds := func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}}}
	}
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want []string
	}{
		{"JOB-69 an index is completed", sum(5, byIndex, done("0-2", "")), list(pod("a", index("4"), succeeded)),
			[]string{"status succeeded=4 completed=0-2,4", "untrack a"}},
		{"JOB-70 twice, or already: counted once", sum(5, byIndex, done("0", "")),
			list(pod("a", index("0"), succeeded), pod("b", index("1"), succeeded), pod("c", index("1"), succeeded)),
			[]string{"status succeeded=2 completed=0,1", "untrack a", "untrack b", "untrack c"}},
		{"JOB-70 without a valid index: not counted", sum(3, byIndex),
			list(pod("a", index("x"), succeeded), pod("b", index("7"), failed), pod("c", failed)),
			[]string{"untrack a", "untrack b", "untrack c"}},
		{"JOB-71 completions were lowered", sum(2, byIndex, done("0,3", "")), nil, []string{"status succeeded=1 completed=0"}},
		{"JOB-67 the last failed pod of an index is held until it is replaced, and not listed", sum(2, limitPerIndex(3), done("", "")),
			list(pod("a", index("0"), failed)), nil},
		{"JOB-67 one that is ignored is held, and does not count", sum(2, limitPerIndex(3), policy(onDisruption("Ignore")), done("", "")),
			list(pod("a", index("0"), failed, disrupted)), nil},
		{"JOB-67 when it is replaced it is not held", sum(2, limitPerIndex(3), done("", "")),
			list(pod("a", index("0"), failed), pod("b", index("0"), failedBefore("1"))),
			[]string{"status active=1 uncounted.failed=1", "untrack a"}},
		{"JOB-67 nor are earlier ones", sum(2, limitPerIndex(3), done("", "")),
			list(pod("a", index("0"), failed), pod("b", index("0"), failedBefore("1"), failed)),
			[]string{"status uncounted.failed=1", "untrack a"}},
		{"JOB-52 a failure that ends the Job does so although its index could wait",
			sum(2, limitPerIndex(3), policy(onExit("FailJob", 42)), done("", "")),
			list(pod("a", index("0"), failedWith(42, 0))), []string{"status uncounted.failed=1 FailureTarget=True", "untrack a"}},
		{"JOB-67 at the end nothing is held", sum(2, limitPerIndex(3), done("", ""), condTrue(batchv1.JobFailureTarget, "x")),
			list(pod("a", index("0"), failed)),
			[]string{"status uncounted.failed=1 FailureTarget=True", "untrack a"}},
		{"JOB-68 an index fails", sum(2, limitPerIndex(1), done("", "")), list(pod("a", index("1"), failedBefore("1"), failed)),
			[]string{"status lost=1 uncounted.failed=1", "untrack a"}},
		{"JOB-68 by the policy at once", sum(2, limitPerIndex(5), done("", ""), policy(onExit("FailIndex", 1))),
			list(pod("a", index("1"), failed)),
			[]string{"status lost=1 uncounted.failed=1", "untrack a"}},
		{"JOB-58 the success policy is met while an index is running", sum(3, byIndex, firstSucceeds, oneActive, done("0", "")),
			list(pod("a", index("1"))),
			[]string{"status active=1 succeeded=1 completed=0 SuccessCriteriaMet=True"}},
		{"JOB-58 not by another index", sum(3, byIndex, firstSucceeds, oneActive, done("2", "")), list(pod("a", index("1"))), nil},
		{"JOB-57 no index is left, some have failed", sum(2, limitPerIndex(1), done("0", "1")), nil,
			[]string{"status succeeded=1 completed=0 lost=1 FailureTarget=True Failed=True", "event FailedIndexes"}},
		{"JOB-56 too many indexes have failed",
			sum(5, limitPerIndex(1), done("0", "1,2"), func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = ptr.To[int32](1) }), nil,
			[]string{"status succeeded=1 completed=0 lost=1,2 FailureTarget=True Failed=True", "event MaxFailedIndexesExceeded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lines(reportStatus(now, snapshotOf(c.job, c.pods...), plan.Outcome{}).Steps)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s", cmp.Diff(c.want, got))
			}
		})
	}
}

// JOB-26, JOB-87: the status says what became of the plan; JOB-121: pods that a terminating namespace has refused are not active.
func TestReportAfterWrites(t *testing.T) {
	a, b := pod("a", ready), pod("b", ready)
	s := snapshotOf(sum(3, func(j *batchv1.Job) { j.Status.Active, j.Status.Ready = 2, ptr.To[int32](2) }), a, b)
	refused := errors.New("quota")
	for _, c := range []struct {
		name string
		did  plan.Outcome
		want []string
	}{
		{"created", plan.Outcome{Results: []plan.Result{{Verb: plan.Created, Object: newPod(s)}}}, []string{"status active=3 ready=2"}},
		{"refused", plan.Outcome{Err: refused, Results: []plan.Result{{Verb: plan.Created, Object: newPod(s), Err: refused}}}, nil},
		{"stopped", plan.Outcome{Stopped: true}, nil},
		{"deleted", plan.Outcome{Results: []plan.Result{{Verb: plan.Deleted, Object: b}}},
			[]string{"status active=1 ready=1 terminating=1"}},
		{"MEND-7 not deleted", plan.Outcome{Err: refused, Results: []plan.Result{{Verb: plan.Deleted, Object: b, Err: refused}}}, nil},
		{"not given up", plan.Outcome{Err: refused, Results: []plan.Result{{Verb: plan.Changed, Object: b, Err: refused}}}, nil},
	} {
		if got := lines(reportStatus(now, s, c.did).Steps); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s", c.name, cmp.Diff(c.want, got))
		}
	}
}

// JOB-1, JOB-125: mere progress may wait for a second, what users wait for may not.
func TestWhatWaits(t *testing.T) {
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want time.Duration
	}{
		{"start", sum(1, notStarted), nil, 0},
		{"progress", sum(2), list(pod("a", succeeded), pod("b")), plan.OncePerSecond().Longest},
		{"the end", sum(1), list(pod("a", succeeded)), 0},
		{"suspension", sum(1, suspend), nil, 0},
	} {
		p := reportStatus(now, snapshotOf(c.job, c.pods...), plan.Outcome{})
		if p.Empty() || p.When.Quiet != c.want || p.When.Longest != c.want {
			t.Errorf("%s: waits %v, at most %v", c.name, p.When.Quiet, p.When.Longest)
		}
	}
}

func TestJOB74PolicyMessages(t *testing.T) { // JOB-74
	named := onExit("FailJob", 42)
	named.OnExitCodes.ContainerName = ptr.To("other")
	notIn := onExit("FailJob", 1, 2)
	notIn.OnExitCodes.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
	for _, c := range []struct {
		name  string
		rules []batchv1.PodFailurePolicyRule
		pod   *corev1.Pod
		want  string
	}{
		{"exit code", []batchv1.PodFailurePolicyRule{onDisruption("Ignore"), onExit("FailJob", 42)}, pod("a", failedWith(42, 0)),
			"Container sum for pod shop/a failed with exit code 42 matching FailJob rule at index 1"},
		{"condition", []batchv1.PodFailurePolicyRule{onDisruption("FailJob")}, pod("a", failed, disrupted),
			"Pod shop/a has condition DisruptionTarget matching FailJob rule at index 0"},
		{"not in", []batchv1.PodFailurePolicyRule{notIn}, pod("a", failedWith(3, 0)),
			"Container sum for pod shop/a failed with exit code 3 matching FailJob rule at index 0"},
		{"exit code 0 never matches", []batchv1.PodFailurePolicyRule{notIn}, pod("a", failedWith(0, 0)), ""},
		{"another container", []batchv1.PodFailurePolicyRule{named}, pod("a", failedWith(42, 0)), ""},
		{"has not ended", []batchv1.PodFailurePolicyRule{onDisruption("FailJob")}, pod("a", disrupted, terminating), ""},
	} {
		if got := matchPolicy(sum(1, policy(c.rules...)), c.pod).message; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSuccessPolicy(t *testing.T) { // JOB-76
	for _, c := range []struct {
		rules     []batchv1.SuccessPolicyRule
		completed string
		want      int // -1: not met
	}{
		{[]batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0,2-3")}}, "0,2,3", 0},
		{[]batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0,2-3")}}, "0,1,3", -1},
		{[]batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0,2-3"), SucceededCount: ptr.To[int32](2)}}, "1-3", 0},
		{[]batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0")}, {SucceededCount: ptr.To[int32](2)}}, "1,3", 1},
		{[]batchv1.SuccessPolicyRule{{}}, "0-8", -1},
	} {
		j := sum(9, byIndex, func(j *batchv1.Job) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: c.rules} })
		got, ok := metSuccessPolicy(j, parseIndexes(c.completed, 9))
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%+v with %s: %d, want %d", c.rules, c.completed, got, c.want)
		}
	}
}

// JOB-47: a counted pod whose finalizer cannot be removed keeps the Job neither from its other pods nor from its status.
func TestRefusedRemovalsStopNothingElse(t *testing.T) {
	w := newWorld(sum(3, parallel(1), counters(0, 0, succeededList("a"))), pod("a", succeeded))
	w.Refuse = func(v plan.Verb, o plan.Object) error {
		if v == plan.Changed && o.GetName() == "a" {
			return errors.New("a webhook refuses it")
		}
		return nil
	}
	for range 2 {
		for range 5 {
			_, _, _ = w.pass()
		}
		w.run()
		for _, p := range w.running() {
			w.end(p.Name, corev1.PodSucceeded, 0)
		}
	}
	for range 5 {
		_, _, _ = w.pass()
	}
	j := w.job()
	if j.Status.Succeeded != 2 || !slices.Equal(j.Status.UncountedTerminatedPods.Succeeded, uids("a")) ||
		!workloads.HasJobCondition(j.Status, batchv1.JobSuccessCriteriaMet) {
		t.Errorf("%s", statusLine(batchv1.JobStatus{}, j.Status))
	}
	w.Refuse = nil
	w.settle()
	if j := w.job(); j.Status.Succeeded != 3 || !workloads.HasJobCondition(j.Status, batchv1.JobComplete) {
		t.Errorf("%s", statusLine(batchv1.JobStatus{}, j.Status))
	}
}

// A pod that cannot be changed, and so is not deleted, keeps nothing else from being told (JOB-47).
func TestRefusedDeletionsStopNothingElse(t *testing.T) {
	w := newWorld(sum(10, parallel(3)), pod("a", succeeded), pod("b"), pod("c"), pod("d"))
	w.Refuse = func(v plan.Verb, o plan.Object) error {
		if v == plan.Changed && o.GetName() == "d" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "d", errors.New("a webhook refuses it"))
		}
		return nil
	}
	plantest.Edit(w.World, "sum", suspend)
	for range 10 {
		_, _, _ = w.pass()
	}
	if s := w.job().Status; s.Succeeded != 1 || s.Active != 1 {
		t.Errorf("%s", statusLine(batchv1.JobStatus{}, s))
	}
}

// The server refuses a count of pods that falls, unless parallelism is completions: then it is written at once (JOB-64, JOB-71).
func TestFewerIndexes(t *testing.T) {
	for parallelism, c := range map[int32]struct {
		succeeded int32
		when      plan.When
	}{1: {4, plan.OncePerSecond()}, 3: {1, plan.Now()}} {
		j := sum(3, byIndex, parallel(parallelism), func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = "0,3-5", 4 })
		s := snapshot{Job: j}
		d, _ := planJob(now, s)
		p := reportJob(now, s, d, plan.Outcome{})
		status := p.Steps[0].(plan.Change).New.(*batchv1.Job).Status
		if status.Succeeded != c.succeeded || status.CompletedIndexes != "0" || p.When != c.when {
			t.Errorf("parallelism %d: %d %q, %+v", parallelism, status.Succeeded, status.CompletedIndexes, p.When)
		}
	}
}

// The deadline does not wait until what was refused is tried again (JOB-4).
func TestDeadlineWhileWritesAreRefused(t *testing.T) {
	s := snapshot{Job: sum(3, deadline(3600+45), func(j *batchv1.Job) { j.Status.StartTime = ptr.To(ago(time.Hour)) })}
	d, _ := planJob(now, s)
	quota := errors.New("a quota")
	did := plan.Outcome{Err: quota, Results: []plan.Result{{Verb: plan.Created, Object: pod("a"), Err: quota}}}
	if p := reportJob(now, s, d, did); p.Requeue != 45*time.Second {
		t.Errorf("it is looked at in %v", p.Requeue)
	}
}

// A pod whose adoption the server has refused is not the Job's, and does not count (JOB-15).
func TestRefusedAdoptionsDoNotCount(t *testing.T) {
	orphan := func(p *corev1.Pod) { p.OwnerReferences = nil }
	w := newWorld(sum(1), pod("a", succeeded, orphan))
	w.Refuse = func(v plan.Verb, o plan.Object) error {
		if v == plan.Changed && o.GetName() == "a" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("a webhook refuses it"))
		}
		return nil
	}
	for range 10 {
		_, _, _ = w.pass()
	}
	if s := w.job().Status; s.Succeeded != 0 || s.UncountedTerminatedPods != nil && len(s.UncountedTerminatedPods.Succeeded) > 0 {
		t.Errorf("%s", statusLine(batchv1.JobStatus{}, s))
	}
}
