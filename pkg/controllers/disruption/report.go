package disruption

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// deletedWithin is how long after an eviction its pod counts as disrupted although nothing shows that it is being
	// deleted (DIS-22).
	deletedWithin = 2 * time.Minute
	// firstLook and lastLook bound the time after which doubtful pods are read live again.
	firstLook = time.Second
	lastLook  = 15 * time.Second
	// firstRetry and lastRetry bound the time between two tries to calculate a status.
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute
	// longestMessage is what a condition takes.
	longestMessage = 32768
)

// reportStatus writes the status when something in it differs (DIS-15, DIS-26h).
func reportStatus(now time.Time, s snapshot, _ plan.Outcome) plan.Plan {
	if why := failure(s); why != "" {
		p := write(s, failSafe(now, s.Budget, why), nil)
		p.Why = "no disruptions are allowed, as the budget cannot be calculated: " + why
		p.Requeue = plan.Doubling(firstRetry, lastRetry, s.Retries)
		return p
	}
	d := disrupted(now, s)
	after := statusOf(now, s, d)
	why := fmt.Sprintf("%d of %d pods are healthy, %d have to be: %d disruptions are allowed",
		after.CurrentHealthy, after.ExpectedPods, after.DesiredHealthy, after.DisruptionsAllowed)
	var events []plan.Step
	for _, p := range d.Overdue {
		events = append(events,
			plan.RecordEvent{Object: p, Event: plan.Event{Type: corev1.EventTypeWarning, Reason: "NotDeleted",
				Message: fmt.Sprintf("Pod was expected by PDB %s/%s to be deleted but it wasn't", s.Budget.Namespace,
					s.Budget.Name)}})
	}
	p := write(s, after, events)
	if !p.Empty() && s.WriteError != "" && s.Budget.Status.DisruptionsAllowed > 0 {
		// What the server has may allow too much, and was not to be replaced: it allows nothing until that succeeds
		// (DIS-27).
		after = failSafe(now, s.Budget, s.WriteError)
		p = write(s, after, nil)
		why = "no disruptions are allowed, as the status could not be written: " + s.WriteError
	}
	again := s.Scale.Stale
	if s.Scale.Error != "" { // it makes no difference to what is allowed
		again = lastRetry
	}
	p.Why, p.Requeue = why, plan.Sooner(d.Next, again)
	if !urgent(s.Budget, after) {
		p.When = plan.Progress(int64(s.Counts.Pods))
	}
	return p
}

// urgent reports whether a status must not wait for a newer one: evictions depend on it, those of pods that are not
// ready on whether enough pods are healthy (DIS-31).
func urgent(b *policyv1.PodDisruptionBudget, after policyv1.PodDisruptionBudgetStatus) bool {
	before := b.Status
	return before.ObservedGeneration != after.ObservedGeneration ||
		after.DisruptionsAllowed < before.DisruptionsAllowed ||
		before.DisruptionsAllowed <= 0 && after.DisruptionsAllowed > 0 ||
		before.CurrentHealthy >= before.DesiredHealthy && after.CurrentHealthy < after.DesiredHealthy
}

// write replaces the status if there is a difference.
func write(s snapshot, after policyv1.PodDisruptionBudgetStatus, events []plan.Step) (p plan.Plan) {
	if equality.Semantic.DeepEqual(s.Budget.Status, after) {
		return p
	}
	b := *s.Budget
	b.Status = after
	p.Steps = append(events,
		plan.Change{Old: s.Budget, New: &b, Subresource: plan.Status, Why: "the status has changed"})
	return p
}

// statusOf returns the status (DIS-26a to DIS-26f).
func statusOf(now time.Time, s snapshot, d disruptions) policyv1.PodDisruptionBudgetStatus {
	pods, desired, _ := expected(s)
	current := int64(s.Counts.Ready - d.Shielded)
	allowed := int64(0)
	if desired = max(desired, 0); pods > 0 {
		allowed = max(0, current-desired)
	}
	after := *s.Budget.Status.DeepCopy()
	after.ExpectedPods, after.DesiredHealthy = clamped(pods), clamped(desired)
	after.CurrentHealthy, after.DisruptionsAllowed = clamped(current), clamped(allowed)
	after.ObservedGeneration = s.Budget.Generation
	after.DisruptedPods = d.Kept
	condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason}
	if allowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	setCondition(now, &after, condition)
	return after
}

// failSafe returns a status that allows nothing, and says why (DIS-27).
func failSafe(now time.Time, b *policyv1.PodDisruptionBudget, why string) policyv1.PodDisruptionBudgetStatus {
	after := *b.Status.DeepCopy()
	after.DisruptionsAllowed = 0
	setCondition(now, &after, metav1.Condition{Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: truncate.Text(why, longestMessage)})
	return after
}

// setCondition sets the one condition of a budget, which is about the generation that was observed.
func setCondition(now time.Time, s *policyv1.PodDisruptionBudgetStatus, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = policyv1.DisruptionAllowedCondition, s.ObservedGeneration,
		metav1.NewTime(now)
	meta.SetStatusCondition(&s.Conditions, c)
}

// disruptions are what has become of the pods that the status names as disrupted.
type disruptions struct {
	Kept     map[string]metav1.Time
	Shielded int           // pods that are kept and would count as healthy
	Overdue  []*corev1.Pod // pods that should be gone by now (DIS-25)
	Next     time.Duration // until the next of the kept is overdue
}

// disrupted keeps the entries of pods that are still to be deleted (DIS-24).
func disrupted(now time.Time, s snapshot) (d disruptions) {
	for _, name := range slices.Sorted(maps.Keys(s.Budget.Status.DisruptedPods)) {
		since := s.Budget.Status.DisruptedPods[name]
		p := s.Disrupted[name]
		if p == nil || p.DeletionTimestamp != nil {
			continue
		}
		left := since.Add(deletedWithin).Sub(now)
		switch {
		case left > 0:
		case s.Doubtful[name]: // the caches will show what has become of it
			left = s.LookAgain
		default:
			d.Overdue = append(d.Overdue, p)
			continue
		}
		if d.Kept == nil {
			d.Kept = map[string]metav1.Time{}
		}
		d.Kept[name] = since
		d.Next = plan.Sooner(d.Next, left)
		if healthy(p) {
			d.Shielded++
		}
	}
	return d
}

// clamped returns the number as a status takes it.
func clamped(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
