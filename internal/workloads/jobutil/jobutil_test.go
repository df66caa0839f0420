package jobutil

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestFinished(t *testing.T) { // TTL-21
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
		if finished := Finished(&batchv1.Job{Status: batchv1.JobStatus{Conditions: c.conditions}}); finished != nil {
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
