package plantest

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ToyReplicaSets does what a ReplicaSet controller does, to at most n pods: it creates those that are missing and
// deletes those too many, the ones that are not ready first. It also lets go of those whose labels have changed.
func (w *World) ToyReplicaSets(n int) {
	for _, rs := range All[*appsv1.ReplicaSet](w) {
		w.release(rs)
		active := slices.DeleteFunc(w.podsOf(rs), func(p *corev1.Pod) bool { return !podutil.Active(p) })
		slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return readiness(a) - readiness(b) })
		for size := int(*rs.Spec.Replicas); len(active) > size && n > 0; n-- {
			must(w.delete(active[0], false))
			active = active[1:]
		}
		for missing := int(*rs.Spec.Replicas) - len(active); missing > 0 && n > 0; missing, n = missing-1, n-1 {
			pod := Pods(rs, 0, 1)[0]
			pod.Name, pod.GenerateName = "", rs.Name+"-"
			must(w.create(pod))
		}
	}
}

// ToyStatuses writes the statuses of the ReplicaSets, each that passes the choice.
func (w *World) ToyStatuses(choose func(*appsv1.ReplicaSet) bool) {
	for _, rs := range All[*appsv1.ReplicaSet](w) {
		c := podutil.Count(w.podsOf(rs), rs.Spec.MinReadySeconds, w.now)
		status := appsv1.ReplicaSetStatus{
			ObservedGeneration: rs.Generation, Replicas: c.Active, FullyLabeledReplicas: c.Active,
			ReadyReplicas:     c.Ready,
			AvailableReplicas: c.Available, TerminatingReplicas: &c.Terminating, Conditions: rs.Status.Conditions,
		}
		if choose(rs) && !equality.Semantic.DeepEqual(status, rs.Status) {
			EditStatus(w, rs.Name, func(rs *appsv1.ReplicaSet) { rs.Status = status })
		}
	}
}

// ToyKubelet takes away at most n pods that are being deleted, or makes n ready that may become so.
func (w *World) ToyKubelet(n int) {
	for _, p := range All[*corev1.Pod](w) {
		switch {
		case n == 0:
			return
		case p.DeletionTimestamp != nil:
			w.Remove(p)
			n--
		case podutil.Active(p) && !podutil.Ready(p) && p.Labels[Never] == "":
			EditStatus(w, p.Name, Ready(w.now))
			n--
		}
	}
}

// release lets the pods go that the ReplicaSet controls but does not select.
func (w *World) release(rs *appsv1.ReplicaSet) {
	mine := w.podsOf(rs)
	for _, p := range All[*corev1.Pod](w) {
		if metav1.IsControlledBy(p, rs) && !slices.Contains(mine, p) {
			Edit(w, p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
	}
}

// podsOf returns the pods that the ReplicaSet controls and selects.
func (w *World) podsOf(rs *appsv1.ReplicaSet) []*corev1.Pod {
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	must(err)
	return slices.DeleteFunc(All[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return !metav1.IsControlledBy(p, rs) || !selector.Matches(labels.Set(p.Labels))
	})
}

func readiness(p *corev1.Pod) int {
	if podutil.Ready(p) {
		return 1
	}
	return 0
}

// Copies returns deep copies, to compare with after something had its hands on the originals.
func Copies[T plan.Object](objects []T) []T {
	all := slices.Clone(objects)
	for i, o := range objects {
		all[i] = o.DeepCopyObject().(T)
	}
	return all
}

// Annotate returns an edit that sets an annotation.
func Annotate[T plan.Object](key, value string) func(T) {
	return func(o T) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}
