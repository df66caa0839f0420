package job

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, a look at them does not panic, and a Job whose selector says nothing is left alone.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		j := &batchv1.Job{}
		fill(j)
		j.DeletionTimestamp, j.Namespace, j.Name, j.UID = nil, "shop", "sum", "job"
		fits := rapid.Bool().Draw(t, "the selector fits")
		if fits {
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": "sum"}}
			j.Spec.ManagedBy = nil
			mode := rapid.SampledFrom([]batchv1.CompletionMode{batchv1.IndexedCompletion, batchv1.NonIndexedCompletion}).Draw(t, "mode")
			j.Spec.CompletionMode = &mode
		}
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			own := *metav1.NewControllerRef(j, jobKind)
			other := own
			other.UID = "other"
			p.OwnerReferences = rapid.SampledFrom([][]metav1.OwnerReference{nil, {own}, {own, other}, {other, own}, {own, own}}).Draw(t,
				"owners")
			p.Finalizers = rapid.SampledFrom([][]string{nil, {batchv1.JobTrackingFinalizer},
				{batchv1.JobTrackingFinalizer, batchv1.JobTrackingFinalizer}}).Draw(t, "finalizers")
			if fits {
				p.Labels = map[string]string{"job": "sum"}
			}
			pods = append(pods, p)
		}
		s := newView(now, snapshot{Job: j, Pods: pods, Scheduling: anyScheduling(t, fill)})
		p := planPods(now, s)
		if p.Requeue < 0 {
			t.Errorf("looks again after %v", p.Requeue)
		}
		if _, err := plan.Selector(j.Spec.Selector); err != nil && !p.Empty() {
			t.Errorf("selector %v: %v", j.Spec.Selector, p.Why)
		}
		reportStatus(now, s, plan.Outcome{})
		for _, pod := range pods {
			planOrphan(now, orphanSnapshot{Pod: pod, Job: j})
		}
	})
}

// anyScheduling draws any Workload and PodGroup at all.
func anyScheduling(t *rapid.T, fill func(any)) *scheduling {
	s := &scheduling{}
	if rapid.Bool().Draw(t, "a Workload") {
		s.Workload = &schedulingv1beta1.Workload{}
		fill(s.Workload)
	}
	if rapid.Bool().Draw(t, "a PodGroup") {
		s.PodGroup = &schedulingv1beta1.PodGroup{}
		fill(s.PodGroup)
	}
	return s
}
