package devicetainteviction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a pod with its devices and what taints them. Observe fills it from the caches, prove puts what was read
// live in the place of that, and planEviction reads it. Its objects belong to shared caches.
type snapshot struct {
	Pod    *corev1.Pod
	Gone   bool                          // a live read has shown that there is no such pod any more
	Claims []*resourcev1.ResourceClaim   // those that the pod uses, and has reserved (DTE-4)
	Slices []*resourcev1.ResourceSlice   // of the pools of their devices
	Rules  []*resourcev1.DeviceTaintRule // those that evict and select one of their devices
	// Many says of rules that concern so many pods that this is out of the ordinary how many these are, by name.
	Many map[string]string
	// Since says since when the previous leader has held pods for some of these, by uid.
	Since map[types.UID]time.Time
	// Early: something was read live for other pods, before this one was looked at. The caches may show later changes.
	Early  bool
	Memory memory
}

// memory is what is remembered of a pod.
type memory struct {
	LastEvent string                  // what the last event was about
	Held      map[types.UID]time.Time // since when it is held for rules that concern many pods, by uid
}

// decision is when a pod is due, and whether it is evicted now. planEviction makes it; the metrics and the memory are
// made of it.
type decision struct {
	Due       time.Time   // zero: never
	Taint     string      // the one that it is due for
	Rules     []types.UID // those for which it is evicted now
	LastEvent string
	Held      map[types.UID]time.Time
}

const (
	// longestHold is how long pods stay at most because a rule concerns so many of them.
	longestHold = 5 * time.Minute
	// lookAtHeld is when a pod that is held is looked at again.
	lookAtHeld = 15 * time.Second
	// lookAgain is when a pod is looked at again that stays because of what may have been read too early.
	lookAgain = time.Second
)

// What the last event of a pod was about.
const (
	pending  = "pending" // none yet: it is due later, or held
	evicting = "evicting"
)

// planEviction decides when a pod is due, and deletes it then. It is read live before, and so is what taints it.
func planEviction(now time.Time, s snapshot) (d decision, p plan.Plan) {
	p.Hold.Ended = plan.NothingLeft
	if p.Why = exempt(s.Pod); p.Why != "" || s.Gone {
		p.Why = cmp.Or(p.Why, "the pod is gone")
		return d, p
	}
	all := s.taints(now)
	switch {
	case len(all) == 0 && s.Early:
		p.Why, p.Requeue = "what was read live for other pods does not taint its devices", lookAgain
		d.LastEvent, d.Held = s.Memory.LastEvent, s.Memory.Held
		return d, p
	case len(all) == 0:
		p.Why, p.Steps = "it tolerates all taints of its devices", s.cancel()
		return d, p
	}
	d.Due, d.Taint, d.Held = all[0].At, all[0].Text, s.heldSince(now, all)
	var due, free []taint // free are those that are due and not held
	for _, t := range all {
		since, held := d.Held[t.ruleUID()]
		switch wait, left := t.At.Sub(now), since.Add(longestHold).Sub(now); {
		case wait > 0:
			p.Requeue = plan.Sooner(p.Requeue, wait)
		case held && left > 0:
			due, p.Requeue = append(due, t), plan.Sooner(p.Requeue, min(lookAtHeld, left))
		default:
			due, free = append(due, t), append(free, t)
		}
	}
	if s.Early {
		p.Requeue = plan.Sooner(p.Requeue, lookAgain)
	}
	switch {
	case len(due) == 0:
		d.LastEvent = pending
		p.Why = fmt.Sprintf("it tolerates the taint %s until %s", d.Taint, d.Due.UTC().Format(time.RFC3339))
	case len(free) == 0:
		rule := due[0].ruleName()
		d.LastEvent = pending
		p.Hold = plan.Hold{What: whatIsHeld(rule), Why: s.Many[rule]}
		p.Why = fmt.Sprintf("it does not tolerate the taint %s, but it is held: %s", d.Taint, s.Many[rule])
	default:
		s.evict(now, free, &d, &p)
	}
	return d, p
}

// whatIsHeld says in words which pods are held for a rule.
func whatIsHeld(rule string) string { return "pods that the DeviceTaintRule " + rule + " evicts" }

// exempt says why a pod is none of the controller's business; empty if it is.
func exempt(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case podutil.Finished(p):
		return "the pod has finished"
	case p.Spec.NodeName == "":
		return "the pod is on no node"
	}
	return ""
}

// heldSince returns since when a pod may be held, for each rule that concerns many pods and for which it is due: by
// this leader, or by the previous one.
func (s snapshot) heldSince(now time.Time, all []taint) (held map[types.UID]time.Time) {
	for _, t := range all {
		if s.Many[t.ruleName()] == "" || t.At.After(now) {
			continue
		}
		uid := t.ruleUID()
		since, known := s.Memory.Held[uid]
		if !known {
			since, known = s.Since[uid]
		}
		if !known {
			since = now
		}
		held = with(held, uid, since)
	}
	return held
}

// cancel says that a pod stays that was to be deleted (DTE-6).
func (s snapshot) cancel() []plan.Step {
	if s.Memory.LastEvent != pending {
		return nil
	}
	return []plan.Step{s.event("Cancelling deletion")}
}

func (s snapshot) event(message string) plan.Step {
	return plan.RecordEvent{Object: s.Pod, Event: plan.Event{
		Type: corev1.EventTypeNormal, Reason: "DeviceTaintManagerEviction", Message: message,
	}}
}

// evict sets the condition by which Jobs know that the pod is not to blame, and then deletes it (DTE-5). The uid is a
// precondition of both. The taints are those for which the pod is due now.
func (s snapshot) evict(now time.Time, due []taint, d *decision, p *plan.Plan) {
	p.Requeue, p.Hold.Ended = 0, plan.ByProof
	p.Proof = []plan.Ref{podRef(s.Pod)}
	d.Due, d.Taint = due[0].At, due[0].Text
	for _, t := range due {
		if !slices.Contains(p.Proof, t.Source) {
			p.Proof = append(p.Proof, t.Source)
		}
		if t.Rule != nil {
			d.Rules = append(d.Rules, t.Rule.UID)
		}
		if s.Many[t.ruleName()] != "" {
			p.Hold.Ended = plan.ByTime
		}
	}
	slices.Sort(d.Rules)
	d.Rules = slices.Compact(d.Rules) // a rule may taint several devices of a pod
	if s.Memory.LastEvent != evicting {
		p.Steps = append(p.Steps, s.event("Marking for deletion"))
	}
	d.LastEvent = evicting
	p.Why = "it does not tolerate the taint " + d.Taint
	after := s.Pod.DeepCopy()
	podutil.Disrupt(after, now, "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint")
	p.Steps = append(p.Steps,
		plan.Change{Old: s.Pod, New: after, Subresource: plan.Status, Unowned: true, Why: p.Why},
		plan.Delete{Objects: []plan.Object{s.Pod}, Unowned: true, Why: p.Why})
}

// podRef names a pod that is read live.
func podRef(p *corev1.Pod) plan.Ref {
	return plan.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: p.Namespace, Name: p.Name}
}

// remember keeps what the last event was about, and since when the pod is held, whatever became of the writes.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory {
	if d.LastEvent == "" && len(d.Held) == 0 {
		return nil
	}
	return &memory{LastEvent: d.LastEvent, Held: d.Held}
}
