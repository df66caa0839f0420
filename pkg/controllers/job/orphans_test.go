package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOrphans(t *testing.T) { // JOB-6
	other := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "another" }
	notAJob := func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "ReplicaSet", "apps/v1"
	}
	complete := condTrue(batchv1.JobComplete, "x")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		job  *batchv1.Job
		want bool
	}{
		{"of a Job that runs", pod("a"), sum(1), false},
		{"of a Job that is gone", pod("a"), nil, true},
		{"of a Job of that name, but another", pod("a", other), sum(1), true},
		{"of a finished Job", pod("a"), sum(1, complete), true},
		{"of a finished Job of another controller", pod("a"), sum(1, complete, managedBy("x")), false},
		{"of nobody", pod("a", orphan, relabelled), sum(1), true},
		{"of nobody, a Job will adopt it", pod("a", orphan), sum(1), false},
		{"of nobody, the Job is being deleted", pod("a", orphan), sum(1, dying), true},
		{"of something else", pod("a", notAJob), nil, false},
		{"without finalizer", pod("a", untracked), nil, false},
	} {
		s := orphanSnapshot{Pod: c.pod}
		if c.job != nil {
			s.Jobs = []*batchv1.Job{c.job}
		}
		p := planOrphan(now, s)
		if got := lines(p.Steps); (len(got) == 1 && got[0] == "untrack a as observed") != c.want || len(got) > 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An adopted pod gains the finalizer, a released one loses it (JOB-12).
func TestClaimsAndTheFinalizer(t *testing.T) {
	s := snapshotOf(sum(2), pod("a", orphan, untracked), pod("b", relabelled))
	mine, steps := claim(s)
	if len(mine) != 1 || !tracked(mine[0]) || !metav1.IsControlledBy(mine[0], s.Job) {
		t.Errorf("adopted: %+v", mine)
	}
	for _, o := range changed(steps) {
		if o.GetName() == "a" && tracked(o.(*corev1.Pod)) {
			t.Error("the pod of the cache has changed")
		}
	}
	if got := lines(steps); len(got) != 2 {
		t.Errorf("%v", got)
	}
}
