package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// claim finds the Job's own pods, those included that have ended (JOB-12), and plans adoptions and releases. An
// adopted pod gains the finalizer, unless it has ended: then it may have been counted before. A released one loses
// it.
func claim(s view) (mine []*corev1.Pod, steps []plan.Step) {
	owned := map[types.UID]bool{}
	for _, p := range s.Pods {
		if metav1.IsControlledBy(p, s.Job) {
			owned[p.UID] = true
		}
	}
	// A pod whose controller changes while the caches are read may be seen twice; it must not be counted twice.
	candidates := slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		return owned[p.UID] && !metav1.IsControlledBy(p, s.Job)
	})
	mine, steps = plan.Claim(s.Job, jobKind, s.selector, candidates)
	for _, step := range steps {
		for _, sequence := range step.(plan.Each).Sequences {
			change := sequence[0].(plan.Change)
			switch pod := change.New.(*corev1.Pod); {
			case !change.Adopt:
				pod.Finalizers = untrack(pod, "").New.GetFinalizers()
			case !workloads.Tracked(pod) && !podutil.Finished(pod):
				pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
			}
		}
	}
	return mine, steps
}

// untrack returns the step that removes the finalizer.
func untrack(p *corev1.Pod, why string) plan.Change {
	after := p.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers,
		func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return plan.Change{Old: p, New: after, Why: why}
}
