package disruption

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// staleAfter is how long a pod may say that it is about to be disrupted (DIS-34).
const staleAfter = 2 * time.Minute

// podSnapshot is what one reconcile of a pod has observed. observePod fills it, and planPod reads it.
type podSnapshot struct {
	Pod      *corev1.Pod
	Budgets  []string // the names of the budgets that select it, if there is more than one
	Reported uint64   // the hash of those that an event has named already; zero for none
}

// planPod warns of budgets that overlap, and takes back that a pod is about to be disrupted when nothing came of it.
func planPod(now time.Time, s podSnapshot) (p plan.Plan) {
	if len(s.Budgets) > 1 && hashOf(s.Budgets) != s.Reported {
		p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Pod, Event: plan.Event{
			Type: corev1.EventTypeWarning, Reason: "MultiplePodDisruptionBudgets",
			Message: fmt.Sprintf(
				"Pod %q/%q matches multiple PodDisruptionBudgets %q. Overlapping PDBs are unsupported for eviction.",
				s.Pod.Namespace, s.Pod.Name, s.Budgets),
		}})
	}
	at := staleDisruption(s.Pod)
	if at < 0 {
		return p
	}
	if left := s.Pod.Status.Conditions[at].LastTransitionTime.Add(staleAfter).Sub(now); left > 0 {
		p.Requeue, p.Why = left, "the pod may still be disrupted"
		return p
	}
	after := s.Pod.DeepCopy()
	after.Status.Conditions[at] = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now),
		LastProbeTime: after.Status.Conditions[at].LastProbeTime,
		// without a reason and a message, which said why the pod was to be disrupted (DIS-35)
		ObservedGeneration: s.Pod.Generation,
	}
	p.Steps = append(p.Steps, plan.Change{
		Old: s.Pod, New: after, Subresource: plan.Status, CheckVersion: true, Why: "the pod was not disrupted",
	})
	p.Why = "the pod was to be disrupted, and is still there"
	return p
}

// hashOf returns a hash of names.
func hashOf(names []string) uint64 {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// staleDisruption returns the index of a condition that says that a pod is about to be disrupted and may not be true
// any more; -1 if there is none (DIS-33).
func staleDisruption(p *corev1.Pod) int {
	if p.DeletionTimestamp != nil || podutil.Finished(p) {
		return -1
	}
	return slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason != corev1.PodReasonTerminationByKubelet
	})
}
