package workloads

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestJobFinished(t *testing.T) { // TTL-21
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: status}
	}
	for _, c := range []struct {
		name       string
		conditions []batchv1.JobCondition
		want       batchv1.JobConditionType
	}{
		{"no condition", nil, ""},
		{"complete", []batchv1.JobCondition{condition("SuccessCriteriaMet", "True"), condition("Complete", "True")}, "Complete"},
		{"failed", []batchv1.JobCondition{condition("FailureTarget", "True"), condition("Failed", "True")}, "Failed"},
		{"both: the first one", []batchv1.JobCondition{condition("Failed", "True"), condition("Complete", "True")}, "Failed"},
		{"about to finish", []batchv1.JobCondition{condition("SuccessCriteriaMet", "True"), condition("FailureTarget", "True")}, ""},
		{"suspended", []batchv1.JobCondition{condition("Suspended", "True")}, ""},
		{"not complete", []batchv1.JobCondition{condition("Complete", "False"), condition("Failed", "Unknown")}, ""},
	} {
		got := batchv1.JobConditionType("")
		if finished := JobFinished(&batchv1.Job{Status: batchv1.JobStatus{Conditions: c.conditions}}); finished != nil {
			got = finished.Type
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTracked(t *testing.T) {
	p := &corev1.Pod{}
	p.Finalizers = []string{"example.com/other"}
	if Tracked(p) {
		t.Error("a pod without the finalizer of Jobs is tracked")
	}
	p.Finalizers = append(p.Finalizers, "batch.kubernetes.io/job-tracking")
	if !Tracked(p) {
		t.Error("a pod with the finalizer of Jobs is not tracked")
	}
}

// A field that is not set has its default.
func TestFields(t *testing.T) {
	set := batchv1.Job{Spec: batchv1.JobSpec{
		ManagedBy: ptr.To("example.com/other"), Suspend: ptr.To(true), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		BackoffLimitPerIndex: ptr.To[int32](0),
		PodReplacementPolicy: ptr.To(batchv1.Failed), Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](2),
	}}
	others := batchv1.Job{Spec: batchv1.JobSpec{
		ManagedBy: ptr.To(batchv1.JobControllerName), Suspend: ptr.To(false), CompletionMode: ptr.To(batchv1.NonIndexedCompletion),
		BackoffLimitPerIndex: ptr.To[int32](0),
		PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed), Completions: ptr.To[int32](-3), Parallelism: ptr.To[int32](-2),
	}}
	policy := batchv1.Job{Spec: batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{}}}
	for _, c := range []struct {
		name                                               string
		job                                                batchv1.Job
		elsewhere, suspended, indexed, perIndex, onlyEnded bool
		completions, parallelism                           int
	}{
		{"nothing is set", batchv1.Job{}, false, false, false, false, false, 0, 1},
		{"all is set", set, true, true, true, true, true, 3, 2},
		{"to the other values", others, false, false, false, false, false, 0, 0},
		{"a pod failure policy replaces pods only when they have ended", policy, false, false, false, false, true, 0, 1},
	} {
		j := &c.job
		if ManagedElsewhere(j) != c.elsewhere || Suspended(j) != c.suspended || Indexed(j) != c.indexed ||
			HasLimitPerIndex(j) != c.perIndex ||
			ReplacesOnlyEnded(j) != c.onlyEnded || Completions(j) != c.completions || Parallelism(j) != c.parallelism {
			t.Errorf("%s: %v %v %v %v %v %d %d", c.name, ManagedElsewhere(j), Suspended(j), Indexed(j), HasLimitPerIndex(j),
				ReplacesOnlyEnded(j), Completions(j), Parallelism(j))
		}
	}
}

func TestConditions(t *testing.T) {
	s := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: "Suspended", Status: "False"},
		{Type: "FailureTarget", Status: "True", Reason: "r"}}}
	if c := JobCondition(s, "FailureTarget"); c == nil || c.Reason != "r" || JobCondition(s, "Failed") != nil {
		t.Errorf("%+v", c)
	}
	if !HasJobCondition(s, "FailureTarget") || HasJobCondition(s, "Suspended") || HasJobCondition(s, "Failed") {
		t.Error("only the condition FailureTarget is True")
	}
}
