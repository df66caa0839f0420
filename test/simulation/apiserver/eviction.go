package apiserver

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// evict deletes a pod if its disruption budget allows that.
func evict(s *Server, st *store, old Object, w Write) (Object, runtime.Object, error) {
	p := old.(*corev1.Pod)
	if opts := w.Object.(*policyv1.Eviction).DeleteOptions; opts != nil {
		w.Options = *opts
		w.DryRun = w.DryRun || len(opts.DryRun) > 0
	}
	s.dryRun = w.DryRun
	if err := checkPreconditions(st, old, w.Options.Preconditions); err != nil {
		return nil, nil, err
	}
	if !disposable(p) {
		budgets := s.budgetsOf(p)
		if len(budgets) > 1 {
			return nil, nil,
				apierrors.NewInternalError(
					errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
		}
		if len(budgets) == 1 && !expendable(p, budgets[0]) {
			if err := s.spend(budgets[0], p); err != nil {
				return nil, nil, err
			}
		}
	}
	w.Object = nil
	after, err := s.delete(st, s.disrupt(st, p), w)
	return after, created(), err
}

// disposable reports whether a pod does no work that a budget would protect.
func disposable(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodSucceeded ||
		p.Status.Phase == corev1.PodFailed
}

// expendable reports whether the budget lets a pod go because it is not ready.
func expendable(p *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	if ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// disrupt notes on a pod why it is going to be deleted.
func (s *Server) disrupt(st *store, old *corev1.Pod) Object {
	if disposable(old) {
		return old
	}
	p := old.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		LastTransitionTime: now(),
	})
	s.commit(st, old, p, false)
	return p
}

func (s *Server) budgetsOf(p *corev1.Pod) (found []*policyv1.PodDisruptionBudget) {
	st := s.stores["poddisruptionbudgets"]
	for _, key := range st.keys() {
		b := st.objects[key].(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels)) {
			found = append(found, b)
		}
	}
	return found
}

// spend takes one disruption from the budget.
func (s *Server) spend(old *policyv1.PodDisruptionBudget, p *corev1.Pod) error {
	if old.Status.ObservedGeneration < old.Generation {
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.", 10,
			fmt.Sprintf("The disruption budget %s is still being processed by the server.", old.Name))
	}
	if old.Status.DisruptionsAllowed <= 0 {
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.", 0,
			fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", old.Name, old.Status.DesiredHealthy,
				old.Status.CurrentHealthy))
	}
	b := old.DeepCopy()
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[p.Name] = now()
	if b.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
			ObservedGeneration: b.Generation, LastTransitionTime: now(),
		})
	}
	s.commit(s.stores["poddisruptionbudgets"], old, b, false)
	return nil
}

func tooMany(message string, retryAfter int, cause string) error {
	err := apierrors.NewTooManyRequests(message, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
