package resourcequota

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a quota has observed: what is counted, and what is not known yet. Observe
// fills it; planUsage and remember read it. The quota belongs to a shared cache.
type snapshot struct {
	Quota *corev1.ResourceQuota
	// Counted has those of the limited names of which all objects are known.
	Counted corev1.ResourceList
	Waiting []string // resources that are being listed
	Failing []string // resources that have been listed for long
	Late    []string // resources whose watches lack objects that the server has
	Waited  bool     // for as long as a new quota waits for what is late
	Error   string   // in the scopes of the quota
	Memory  memory
}

// planUsage writes the limits and what is used of them into the status (RQ-36..40).
func planUsage(now time.Time, s snapshot) plan.Plan {
	switch {
	case s.Quota == nil:
		return plan.Plan{Why: "there is no such quota"}
	case s.Error != "":
		return plan.Plan{Why: "the quota cannot be counted: " + s.Error}
	}
	waits, again := s.waits()
	if waits != "" && s.Quota.Status.Hard == nil && !s.Waited { // one write instead of several
		return plan.Plan{Why: waits, Requeue: again}
	}
	p := plan.Plan{Why: "the status says what is used"}
	reserved, ends := s.Memory.reserved()
	used, reserves := usageOf(s, reserved)
	if reserves {
		p.Why = "the status says what is used, and what was reserved for objects that are not there yet"
		p.Requeue = max(ends.Sub(now), time.Second)
	}
	if waits != "" {
		p.Why += "; " + waits
		p.Requeue = plan.Sooner(p.Requeue, again)
	}
	if len(s.Failing) > 0 {
		p.Why += "; what cannot be listed is not counted: " + strings.Join(s.Failing, ", ")
		p.Requeue = plan.Sooner(p.Requeue, lookAgain)
	}
	q := s.Quota
	if quota.Equal(q.Spec.Hard, q.Status.Hard) && quota.Equal(used, q.Status.Used) {
		return p
	}
	changed := q.DeepCopy()
	changed.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	why := fmt.Sprintf("of %d limits, %d are counted", len(q.Spec.Hard), len(s.Counted))
	p.Steps = []plan.Step{plan.Change{Old: q, New: changed, Subresource: plan.Status, CheckVersion: true, Why: why}}
	return p
}

// waits says what the quota waits for, and when it is looked at again. Meanwhile, the other names are counted.
func (s *snapshot) waits() (why string, again time.Duration) {
	var all []string
	if len(s.Waiting) > 0 {
		all, again = append(all, "waiting for the list of "+strings.Join(s.Waiting, ", ")), lookAgain
	}
	if len(s.Late) > 0 {
		all, again = append(all, "waiting for the watch of "+strings.Join(s.Late, ", ")+" to catch up"), lookAgain
		if !s.Waited {
			again = time.Second
		}
	}
	return strings.Join(all, "; "), again
}

// usageOf returns what is used of each limited name. It is lowered only as far as nothing is reserved (RQ-57), and
// names that are not counted keep what was written before (RQ-38). Reserves reports whether something would be lower
// without reservations.
func usageOf(s snapshot, reserved corev1.ResourceList) (used corev1.ResourceList, reserves bool) {
	used = corev1.ResourceList{}
	for name := range s.Quota.Spec.Hard {
		before, written := s.Quota.Status.Used[name]
		counted, known := s.Counted[name]
		if !known {
			if written {
				used[name] = before
			}
			continue
		}
		used[name] = counted
		if counted.Cmp(before) >= 0 {
			continue
		}
		both := counted.DeepCopy()
		if both.Add(reserved[name]); both.Cmp(before) > 0 {
			both = before
		}
		if both.Cmp(counted) > 0 {
			used[name], reserves = both, true
		}
	}
	return used, reserves
}
