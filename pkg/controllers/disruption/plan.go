package disruption

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a budget has observed: what its pods add up to, and not the pods, because
// they may be many. Observe fills it; planEvents and reportStatus read it. The objects belong to shared
// caches.
type snapshot struct {
	Budget *policyv1.PodDisruptionBudget
	// SelectorError is what is wrong with the selector (DIS-11). The rest is then empty.
	SelectorError string
	// Counts are what the pods that the budget selects add up to.
	Counts counts
	// Disrupted are the pods that the status names as disrupted and that the budget selects, by name.
	Disrupted map[string]*corev1.Pod
	// Doubtful are those of them whose deletion is overdue, and that the server does not show to be alive.
	Doubtful map[string]bool
	// LookAgain is when the server is asked for them again.
	LookAgain time.Duration
	Scale     ownersScale // of the owners, if the budget needs it
	// WriteError is how the last reconcile has failed, empty if it has not (DIS-27).
	WriteError string
	Retries    int   // reconciles in a row that could not calculate the status
	Reported   notes // what events have said already
}

// ownersScale is what the owners of the pods are meant to have.
type ownersScale struct {
	Replicas int64         // of all owners
	Owners   int           // each of which counts once (DIS-19)
	Error    string        // why that is not known (DIS-13); empty if it is
	Stale    time.Duration // until what was remembered has to be asked again; zero if nothing was remembered
}

// notes are what is said in events when it changes (DIS-53). They are the decision: planEvents makes them,
// and the memory keeps them.
type notes struct {
	// NoPods says that the budget selects no pods.
	NoPods bool
	// Unmanaged says that some of its pods have no controller.
	Unmanaged bool
	// Failure is why the status cannot be calculated; empty if it can.
	Failure string
}

// needsScale reports whether a budget is about a share of what the owners are meant to have (DIS-17, DIS-18b).
func needsScale(spec *policyv1.PodDisruptionBudgetSpec) bool {
	return spec.MaxUnavailable != nil || spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String
}

// expected returns how many pods there should be, and how many of them have to be healthy.
func expected(s snapshot) (pods, healthy int64, err error) {
	spec := &s.Budget.Spec
	if needsScale(spec) {
		switch {
		case s.Scale.Error == "":
			pods = min(s.Scale.Replicas, math.MaxInt32)
		case allowsNone(spec): // whatever the scale is
			return int64(s.Counts.Pods), int64(s.Counts.Pods), nil
		default:
			return 0, 0, fmt.Errorf("%s", s.Scale.Error)
		}
	}
	switch {
	case spec.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(pods), true)
		return pods, pods - int64(most), err
	case spec.MinAvailable == nil:
		return 0, 0, nil
	case spec.MinAvailable.Type == intstr.Int:
		return int64(s.Counts.Pods), int64(spec.MinAvailable.IntVal), nil
	}
	least, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(pods), true)
	return pods, int64(least), err
}

// allowsNone reports whether a budget allows no disruption, however many pods there should be.
func allowsNone(spec *policyv1.PodDisruptionBudgetSpec) bool {
	if spec.MaxUnavailable == nil {
		return false
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, math.MaxInt32, true)
	return err == nil && most == 0
}

// failure says why the status cannot be calculated; empty if it can.
func failure(s snapshot) string {
	if s.SelectorError != "" {
		return s.SelectorError
	}
	if _, _, err := expected(s); err != nil {
		return err.Error()
	}
	return ""
}

// noted is what there is to say of a snapshot.
func noted(s snapshot) notes {
	n := notes{Failure: failure(s)}
	if s.SelectorError == "" {
		n.NoPods = s.Counts.Pods == 0
		n.Unmanaged = s.Counts.Unmanaged > 0 && needsScale(&s.Budget.Spec)
	}
	return n
}

// impliedNotes is what the status shows of what was said before this process began.
func impliedNotes(b *policyv1.PodDisruptionBudget) (n notes) {
	n.NoPods = b.Generation > 0 && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods == 0
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			n.Failure = c.Message
		}
	}
	return n
}

// planEvents says what has changed and is not in the status. What is said by now is to be remembered.
func planEvents(_ time.Time, s snapshot) (n notes, p plan.Plan) {
	say := func(kind, reason, message string) {
		p.Steps = append(p.Steps,
			plan.RecordEvent{Object: s.Budget, Event: plan.Event{Type: kind, Reason: reason, Message: message}})
	}
	n = noted(s)
	switch {
	case n.Failure == "" || n.Failure == s.Reported.Failure:
	case s.SelectorError != "":
		say(corev1.EventTypeWarning, "NoPods", "Failed to get pods: "+n.Failure)
	default:
		say(corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: "+n.Failure)
	}
	if n.NoPods && !s.Reported.NoPods {
		say(corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if n.Unmanaged && !s.Reported.Unmanaged {
		say(corev1.EventTypeWarning, "UnmanagedPods",
			fmt.Sprintf("The selector %q matches unmanaged pods: no controller says how many "+
				"of them there should be, so the status of the budget cannot be calculated correctly. Set "+
				".spec.minAvailable to an integer.",
				metav1.FormatLabelSelector(s.Budget.Spec.Selector)))
	}
	return n, p
}
