package pvcprotection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// usage is the snapshot of the second queue: what one reconcile of a claim has observed for its condition
// Unused. observeUnused fills it, and planUnused and reportUnused read it. The claim belongs to a shared
// cache.
type usage struct {
	Claim   *corev1.PersistentVolumeClaim
	Pod     string // that has not ended and names the claim; empty if there is none in the cache
	Refused bool   // the API server does not let this process write the status of claims
}

// condition is the condition Unused that says so.
func (u usage) condition(now time.Time) corev1.PersistentVolumeClaimCondition {
	c := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if u.Pod != "" {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	return c
}

// conditionUnused returns the index of the claim's condition Unused, -1 if it has none.
func conditionUnused(c *corev1.PersistentVolumeClaim) int {
	return slices.IndexFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimUnused
	})
}

// reportsUse reports whether the status of a claim tells whether pods use it.
func reportsUse(c *corev1.PersistentVolumeClaim) bool {
	return c.DeletionTimestamp == nil && c.Status.Phase == corev1.ClaimBound
}

// differs reports whether the claim should have the condition, which is bound and stays, and lacks it or has the
// other one (SM-39).
func (u usage) differs() bool {
	if !reportsUse(u.Claim) {
		return false
	}
	at := conditionUnused(u.Claim)
	return at < 0 || (u.Claim.Status.Conditions[at].Status == corev1.ConditionFalse) != (u.Pod != "")
}

// planUnused says what the report is about to write. That no pod uses a claim is reported a moment later: one that
// takes the place of another is about to come, and would have it written twice.
func planUnused(_ time.Time, u usage) plan.Plan {
	switch {
	case !u.differs():
		return plan.Plan{Why: "there is nothing to say about who uses the claim"}
	case u.Refused:
		return plan.Plan{Why: "the API server does not let this process write the status of claims"}
	case u.Pod != "":
		return plan.Plan{Why: "tell that the pod " + u.Pod + " uses the claim"}
	}
	return plan.Plan{Why: "tell that no pod uses the claim"}
}

// reportUnused writes the condition.
func reportUnused(now time.Time, u usage, _ plan.Outcome) plan.Plan {
	if u.Refused || !u.differs() {
		return plan.Plan{}
	}
	updated := u.Claim.DeepCopy()
	if at := conditionUnused(updated); at >= 0 {
		updated.Status.Conditions[at] = u.condition(now)
	} else {
		updated.Status.Conditions = append(updated.Status.Conditions, u.condition(now))
	}
	p := plan.Plan{Steps: []plan.Step{plan.Change{Old: u.Claim, New: updated, Subresource: plan.Status,
		Why: "the condition Unused differs"}}}
	if u.Pod == "" {
		p.When = plan.OncePerSecond()
	}
	return p
}

// names reports whether a pod that has not ended names the claim, on a node or not (SM-39).
func names(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	return !podutil.Finished(p) && mounts(p, c)
}
