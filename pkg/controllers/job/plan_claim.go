package job

import (
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// selectorOf returns the Job's selector. One that selects everything, or is missing, is an error: the server refuses it.
func selectorOf(j *batchv1.Job) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("left alone, selector: %w", err)
	case j.Spec.Selector == nil || selector.Empty():
		return nil, errors.New("left alone, selector: it is empty")
	}
	return selector, nil
}

// claim finds the Job's own pods, those included that have ended (JOB-12), and plans adoptions and releases. An adopted pod gains the
// finalizer, unless it has ended: then it may have been counted before. A released one loses it.
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

// adopted returns the uids of the pods that are adopted.
func adopted(ownership []plan.Step) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, step := range ownership {
		for _, sequence := range step.(plan.Each).Sequences {
			if change := sequence[0].(plan.Change); change.Adopt {
				uids[change.Old.GetUID()] = true
			}
		}
	}
	return uids
}

// untrack returns the step that removes the finalizer.
func untrack(p *corev1.Pod, why string) plan.Change {
	after := p.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return plan.Change{Old: p, New: after, Why: why}
}
