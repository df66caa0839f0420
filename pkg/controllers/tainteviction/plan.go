package tainteviction

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a pod has observed. Observe fills it from the caches, prove adds the node
// as it was read live, and planEviction reads it. Its objects belong to shared caches.
type snapshot struct {
	Pod        *corev1.Pod
	Node       *corev1.Node // that the pod is on; nil if there is none
	Comparison bool         // tolerations may compare numbers (TE-3)
	Respect    bool         // budgets are asked
	Memory     memory
	Term       time.Time     // when this process began to lead; zero: not known
	Grace      time.Duration // how long kubelets may take to say how their nodes are, once they can

	// For a pod that is due by what the caches show:
	Read   bool      // the node was read live, and Node is what was read; nil if it is gone
	Unread string    // why it could not be read; the pod stays
	Blind  time.Time // when a node last could not be read
	Freed  bool      // an operator has released the brake: it goes also if its node cannot be read
}

// memory is what is remembered of a pod: since when it has to bear with each taint, and what its events said.
// The function remember makes it of the decision. Whatever was remembered is not changed any more.
type memory struct {
	UID       types.UID
	Began     map[string]time.Time // when each taint began, by its key; the two for nodes that are down have one
	LastEvent string               // what the last event was about
	Asked     int                  // how often Options.Evict was asked
}

// remembered is what is remembered of this very pod, and not of one that had its name before.
func (s snapshot) remembered() memory {
	if s.Pod == nil || s.Memory.UID != s.Pod.UID {
		return memory{}
	}
	return s.Memory
}

// decision is what follows from the taints: when the pod is due, and whether it is evicted now. planEviction
// makes it; remember and the metrics read it.
type decision struct {
	// Began is when each taint began for the pod.
	Began map[string]time.Time
	Due   time.Time // zero: never
	Taint string    // the one that it is due for
	// Evict says that the pod is evicted now, as far as the caches and the live read show.
	Evict bool
	// LastEvent is what the last event of the pod is about, this reconcile's included.
	LastEvent string
	// Asked is how often Options.Evict was asked, this reconcile included.
	Asked int
}

// never is the time for which a taint is tolerated that is tolerated without end.
const never = time.Duration(math.MaxInt64)

// planEviction decides when the pod is due, and deletes it then. Its node is read live before.
func planEviction(now time.Time, s snapshot) (d decision, p plan.Plan) {
	if why := exempt(s); why != "" {
		p.Why, p.Hold.Ended = why, plan.NothingLeft
		return d, p
	}
	d = due(now, s)
	p.Hold.Ended = s.holdEnd()
	stays := nodeMayBeBack(now, s)
	switch wait := d.Due.Sub(now); {
	case d.Due.IsZero():
		p.Steps = cancel(s)
		p.Why = fmt.Sprintf("it tolerates the taints of the node %s", s.Node.Name)
	case wait > 0:
		p.Requeue, d.LastEvent = wait, pending
		p.Why = fmt.Sprintf("it tolerates the taint %s until %s", d.Taint, d.Due.UTC().Format(time.RFC3339))
	case s.Unread != "" && !s.Freed:
		p.Requeue, d.LastEvent = readAgain, s.remembered().LastEvent
		p.Hold = s.hold()
		p.Why = fmt.Sprintf("it does not tolerate the taint %s, but its node cannot be read, so it stays: %s", d.Taint,
			s.Unread)
	case stays != "" && !s.Freed:
		p.Requeue, d.LastEvent = readAgain, s.remembered().LastEvent
		p.Why = fmt.Sprintf("it does not tolerate the taint %s any longer, but %s, so it stays", d.Taint, stays)
	default:
		d.Evict, d.LastEvent = true, evicting
		if s.Unread == "" {
			p.Proof = []plan.Ref{nodeOf(s.Pod)}
		}
		p.Steps = append(recordEvent(s, "Marking for deletion Pod", evicting), evict(now, s, d)...)
		p.Why = fmt.Sprintf("it is deleted: it does not tolerate the taint %s of the node %s any longer", d.Taint,
			s.Node.Name)
	}
	return d, p
}

// hold says that pods are held whose node cannot be read.
func (s snapshot) hold() plan.Hold {
	return plan.Hold{What: "pods of the node " + s.Pod.Spec.NodeName, Why: "their node cannot be read: " + s.Unread}
}

// holdEnd says why a pod is not held any more that was held because its node could not be read.
func (s snapshot) holdEnd() plan.HoldEnd {
	if s.Read {
		return plan.ByProof
	}
	return plan.NothingLeft
}

// nodeOf names the node of a pod. One read of it is enough for all pods that are due together.
func nodeOf(p *corev1.Pod) plan.Ref {
	return plan.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Name: p.Spec.NodeName, Shared: true}
}

// nodeMayBeBack says why a pod stays that is due for nothing but that its node was down: the node is ready again, or
// its kubelet has had no time to say so. Then the node lifecycle controller is about to take the taint off. It is
// empty if the pod goes, or its node was not read.
func nodeMayBeBack(now time.Time, s snapshot) string {
	if !s.Read {
		return ""
	}
	others := s
	others.Node = s.Node.DeepCopy()
	others.Node.Spec.Taints = slices.DeleteFunc(others.Node.Spec.Taints, isDown)
	if d := due(now, others); !d.Due.IsZero() && !d.Due.After(now) {
		return ""
	}
	switch {
	case nodes.Ready(s.Node):
		return "its node is ready"
	case now.Sub(s.Blind) < s.Grace:
		return "nodes could not be read a moment ago, so their kubelets may not have been able to say that they are " +
			"ready"
	}
	return ""
}

// isDown reports whether a taint says that a node is down.
func isDown(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute &&
		(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
}

// readAgain is when a node is read again that could not be read.
const readAgain = 5 * time.Second

// exempt says why a pod is none of the controller's business; empty if it is.
func exempt(s snapshot) string {
	switch {
	case s.Pod == nil:
		return "the pod is gone"
	case s.Pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case podutil.Finished(s.Pod):
		return "the pod has finished"
	case s.Node == nil:
		return "the pod is on no node"
	}
	return ""
}

// due returns when the pod is due, and for which taint: the first of the times at which one of the taints is no
// longer tolerated (TE-11..15).
func due(now time.Time, s snapshot) decision {
	d := decision{Began: map[string]time.Time{}}
	taints := noExecute(s.Node)
	for _, t := range taints { // of two that have one name, the time of both is that of the first
		at := began(now, s, t)
		if before, ok := d.Began[name(t)]; !ok || at.Before(before) {
			d.Began[name(t)] = at
		}
	}
	for _, t := range taints {
		tolerated := toleration(s, t)
		if tolerated == never {
			continue
		}
		at := d.Began[name(t)].Add(tolerated)
		if isDown(t) && at.Before(s.Term) { // nobody could take the taint off meanwhile
			at = s.Term.Add(s.Grace)
		}
		if d.Due.IsZero() || at.Before(d.Due) {
			d.Due, d.Taint = at, t.ToString()
		}
	}
	return d
}

// toleration is for how long a taint is tolerated by the first toleration that matches it (TE-13); zero if none does.
func toleration(s snapshot, t corev1.Taint) time.Duration {
	i := slices.IndexFunc(s.Pod.Spec.Tolerations,
		func(o corev1.Toleration) bool { return o.ToleratesTaint(logr.Discard(), &t, s.Comparison) })
	if i < 0 {
		return 0
	}
	seconds := s.Pod.Spec.Tolerations[i].TolerationSeconds
	if seconds == nil || *seconds > int64(never/time.Second) {
		return never
	}
	return max(0, workloads.Seconds(*seconds))
}

// name is what a taint is remembered by. A node that is down may change from one of two taints to the other without
// its time beginning anew (TE-18).
func name(t corev1.Taint) string {
	if t.Key == corev1.TaintNodeUnreachable {
		return corev1.TaintNodeNotReady
	}
	return t.Key
}

// began is when the time of a taint began for the pod: when it was first seen; or when it was added, if this process
// has just begun to lead, so that it may have been there before. It is not before the pod was bound to the node, and
// not in the future. What this process has seen begin counts by its monotonic clock: a wall clock that jumps brings
// no pod to an end.
func began(now time.Time, s snapshot, t corev1.Taint) time.Time {
	if before, ok := s.remembered().Began[name(t)]; ok {
		return before
	}
	at := now
	if t.TimeAdded != nil && t.TimeAdded.Time.Before(at) && (s.Term.IsZero() || now.Sub(s.Term) < s.Grace) {
		at = t.TimeAdded.Time
	}
	if b := bound(s.Pod); at.Before(b) && b.Before(now) {
		at = b
	}
	return at
}

// bound is when a pod was bound to its node, as far as its conditions show.
func bound(p *corev1.Pod) time.Time {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return p.CreationTimestamp.Time
	}
	return p.Status.Conditions[i].LastTransitionTime.Time
}

// What the last event of a pod was about.
const (
	pending  = "pending" // none yet: it is due later
	evicting = "evicting"
)

// cancel says that a pod stays that was to be deleted.
func cancel(s snapshot) []plan.Step {
	if s.remembered().LastEvent != pending {
		return nil
	}
	return recordEvent(s, "Cancelling deletion of Pod", "")
}

// recordEvent returns an event of the pod (TE-30, TE-31), unless the last one said the same.
func recordEvent(s snapshot, text, reported string) []plan.Step {
	if reported != "" && s.remembered().LastEvent == reported {
		return nil
	}
	return []plan.Step{plan.RecordEvent{Object: s.Pod, Event: plan.Event{
		Type: corev1.EventTypeNormal, Reason: "TaintManagerEviction",
		Message: fmt.Sprintf("%s %s/%s", text, s.Pod.Namespace, s.Pod.Name),
	}}}
}

// plan lets Options.Evict say what becomes of a pod that is due, once its node was read. If it is still there later, it
// is asked again.
func (o *Options) plan(now time.Time, s snapshot) (decision, plan.Plan) {
	d, p := planEviction(now, s)
	if !d.Evict || o.Evict == nil || !s.Read && s.Unread == "" {
		return d, p
	}
	d.Asked = s.remembered().Asked + 1
	p.Steps = append(recordEvent(s, "Marking for deletion Pod", evicting), o.Evict(s.Pod, d.Taint)...)
	p.Requeue = plan.Doubling(firstAsked, lastAsked, s.remembered().Asked)
	return d, p
}

// When Options.Evict is asked again: the first time, and at most.
const firstAsked, lastAsked = time.Second, 5 * time.Minute

// evict sets the condition by which Jobs know that the pod is not to blame, and then deletes it (TE-21, TE-22). The
// uid is a precondition of both.
func evict(now time.Time, s snapshot, d decision) []plan.Step {
	p := s.Pod
	why := "it does not tolerate the taint " + d.Taint
	if s.Respect {
		// the API server sets a condition of its own
		return []plan.Step{plan.Delete{Objects: []plan.Object{p}, Evict: true, Unowned: true, Why: why}}
	}
	after := p.DeepCopy()
	podutil.Disrupt(after, now, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	return []plan.Step{
		plan.Change{Old: p, New: after, Subresource: plan.Status, Unowned: true, Why: why},
		plan.Delete{Objects: []plan.Object{p}, Unowned: true, Why: why},
	}
}

// remember keeps when taints began, and the last event, whatever became of the writes.
func remember(_ time.Time, s snapshot, d decision, _ plan.Outcome) *memory {
	if s.Pod == nil || len(d.Began) == 0 {
		return nil
	}
	return &memory{UID: s.Pod.UID, Began: d.Began, LastEvent: d.LastEvent, Asked: d.Asked}
}
