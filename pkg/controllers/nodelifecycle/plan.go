package nodelifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a node has observed. Observe fills it from the caches, prove adds what a
// live read of the Lease has shown, and planNode reads it. Its objects belong to shared caches.
type snapshot struct {
	Name string
	Node *corev1.Node // nil: it is gone
	// Limits are the grace periods and rates that flags say.
	Limits Options
	Zone   zone          // how the node's zone does
	Pods   []*corev1.Pod // on the node, if that is Unknown, or may be about to be
	Memory memory        // with what was seen now

	Unread string // why a live read of the Lease of a silent node proves nothing, or could not be made
}

// memory is what is remembered of a node: its signs of life by the clock of this process, and what was done
// about it. Observe adds what was seen, planNode what was decided, and remember keeps it. Whatever was
// remembered is not changed any more.
type memory struct {
	UID       types.UID
	First     time.Time // when this process has first seen the node
	Alive     time.Time // when this process has last seen a sign of life; zero if it has not
	Renewed   time.Time // of the Lease in the cache, as the node says
	Live      time.Time // the same of the Lease as it was last read live
	Reported  time.Time // of the condition Ready, as the node says
	Proved    bool      // the Lease was read live since then, and nothing was new
	Unready   time.Time // when this process has first seen that it is not ready; zero if it is
	AllDown   bool      // all zones were down when the node was last looked at
	Recovered time.Time // when they were first seen to be no longer
	HadReady  bool      // the condition Ready was there when the node was last looked at, and was not Unknown
	Announced bool      // there was an event that the node is registered
	Line      line      // where in the line of its zone it was when it was last looked at

	Marked map[types.UID]mark // the pods that were marked since the node is Unknown
}

// line is how far the line of a zone has gone, as a node that waits in it sees it.
type line struct {
	Last   time.Time // when a node last got a taint
	Before int       // nodes that get one before this one
	Rate   float32
	Since  time.Time // when this process has first seen it so
}

// mark is how often a pod was marked as not ready, and when it may be again.
type mark struct {
	Times int
	Next  time.Time
}

// decision is what was made of a node. planNode makes it; remember and the metrics read it.
type decision struct {
	Memory  memory
	Unknown bool // it is declared Unknown now
	Tainted bool // it gets a NoExecute taint now, by the rate of its zone
	Marked  int  // pods that are marked as not ready
}

// planNode brings the status of a node, its taints and labels, and the readiness of its pods to what they should be.
func planNode(now time.Time, s snapshot) (d decision, p plan.Plan) {
	d.Memory = s.Memory
	if s.Node == nil {
		return d, farewell(s)
	}
	d.Memory.note(now, s)
	w := &planner{snapshot: s, now: now, decision: &d, node: s.Node, steps: announce(s, &d)}
	w.planStatus()
	// Its taints and its pods do not wait for one another: a webhook that refuses the one may run on the node.
	taints, marks := w.planTaints(), w.planPods()
	switch {
	case len(marks) > 0:
		w.steps = append(w.steps, plan.Each{Sequences: append(taints, marks...)})
	case len(taints) > 0:
		w.steps = append(w.steps, taints[0]...)
	}
	why := cmp.Or(strings.Join(w.why, "; "), "it is as it should be")
	return d, plan.Plan{Proof: w.proof, Steps: w.steps, Requeue: w.next, Why: why}
}

// planner is what planNode knows while it decides: the steps so far, and the node as they leave it. It lives
// for one call.
type planner struct {
	snapshot
	now time.Time
	// decision is filled in on the way.
	decision *decision
	node     *corev1.Node // as its status is after this reconcile

	// proof is what is to be read live before the steps are carried out.
	proof []plan.Ref
	// steps change the status first, and then taints and pods.
	steps []plan.Step
	why   []string
	next  time.Duration // until the node is looked at again; zero for never
}

// note remembers since when a node is not ready, and how all zones do.
func (m *memory) note(now time.Time, s snapshot) {
	if c := ready(s.Node); c == nil || c.Status == corev1.ConditionTrue {
		m.Unready = time.Time{}
	} else if m.Unready.IsZero() {
		m.Unready = now
	}
	if s.Zone.Known {
		if m.AllDown && !s.Zone.AllDown {
			m.Recovered = now
		}
		m.AllDown = s.Zone.AllDown
	}
}

// planStatus declares a node Unknown that gives no sign of life:
//
//	signs of life                   conditions       what is done
//	some, within the grace period   any              look again when that is over
//	none in the caches              any              read its Lease live; again soon if that proves nothing
//	none                            not Unknown      all become Unknown, with an event if it was ready
//	none                            all Unknown      nothing
func (w *planner) planStatus() {
	silent, left := silence(w.now, w.snapshot)
	switch {
	case left > 0:
		w.next = left
	case !w.Memory.Proved:
		w.proveSilence(silent)
	default:
		if after := unknown(w.now, w.Node); after != nil {
			w.say("it has given no sign of life for %s and is declared Unknown", silent.Round(time.Second))
			w.declareUnknown(after)
		}
	}
}

// proveSilence asks for the Lease of the node, once in a reconcile.
func (w *planner) proveSilence(silent time.Duration) {
	if w.Unread == "" {
		w.proof = []plan.Ref{leaseOf(w.Name)}
		w.say("it has given no sign of life for %s", silent.Round(time.Second))
		return
	}
	w.next = readAgain
	w.say("it has given no sign of life for %s, but %s", silent.Round(time.Second), w.Unread)
}

// declareUnknown writes the conditions of a node that gives no sign of life, with an event if it was ready
// until now.
func (w *planner) declareUnknown(after *corev1.Node) {
	if w.Unread != "" {
		w.say("%s", w.Unread)
	}
	w.steps = append(w.steps, plan.Change{
		Old: w.Node, New: after, Subresource: plan.Status, Unowned: true, CheckVersion: true, Why: "no sign of life",
	})
	if nodes.Ready(w.Node) {
		w.decision.Unknown = true
		message := fmt.Sprintf("Node %s status is now: NodeNotReady", w.Name)
		w.steps = append(w.steps, event(w.Node, corev1.EventTypeNormal, "NodeNotReady", message))
	}
	w.node = after
}

// planTaints returns the sequence of steps that brings taints and labels to what they should be; none if they are.
func (w *planner) planTaints() (sequences [][]plan.Step) {
	after, wait, says := withTaints(w.now, w.snapshot, w.node, w.decision)
	if after == nil && wait <= 0 {
		return nil
	}
	w.say("%s", says)
	w.next = plan.Sooner(w.next, wait)
	if after == nil {
		return nil
	}
	// it guards the taints of others (NL-23), as the list is written as a whole
	version := !sameTaints(w.node.Spec.Taints, after.Spec.Taints)
	return [][]plan.Step{{plan.Change{Old: w.node, New: after, Unowned: true, CheckVersion: version, Why: says}}}
}

// planPods returns a sequence of steps for each pod that is marked as not ready.
func (w *planner) planPods() [][]plan.Step {
	marks, wait := markPods(w.now, w.snapshot, w.node, w.decision)
	if w.decision.Marked = len(marks); len(marks) > 0 {
		w.say("%d of its pods are no longer ready", len(marks))
	}
	if wait > 0 {
		w.say("somebody says that pods of it are ready, which were marked before")
		w.next = plan.Sooner(w.next, wait)
	}
	return marks
}

// say adds to the reasons that people read.
func (w *planner) say(format string, args ...any) {
	w.why = append(w.why, fmt.Sprintf(format, args...))
}

// readAgain is when a Lease is read again that could not be read.
const readAgain = 10 * time.Second

// leaseOf names the Lease of a node.
func leaseOf(node string) plan.Ref {
	kind := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	return plan.Ref{Kind: kind, Namespace: corev1.NamespaceNodeLease, Name: node}
}

// silence is for how long a node has given no sign of life, and how long it still may (NL-5, NL-6). A node without
// the condition Ready is counted from its creation (NL-15), but for a Lease that this process has found: it may have
// been renewed a moment before.
func silence(now time.Time, s snapshot) (silent, left time.Duration) {
	since, grace := s.Memory.First, s.Limits.MonitorGracePeriod
	if ready(s.Node) == nil {
		since, grace = s.Node.CreationTimestamp.Time, s.Limits.StartupGracePeriod
		if !s.Memory.Renewed.IsZero() && s.Memory.First.After(since) {
			since = s.Memory.First
		}
	}
	if s.Memory.Alive.After(since) {
		since = s.Memory.Alive
	}
	silent = now.Sub(since)
	return silent, grace - silent
}

// ready returns the condition, nil if there is none.
func ready(n *corev1.Node) *corev1.NodeCondition { return nodes.Condition(n, corev1.NodeReady) }

// unknown returns the node with the conditions that only a kubelet can know (NL-16); nil if nothing changes.
func unknown(now time.Time, n *corev1.Node) *corev1.Node {
	after, changed := n.DeepCopy(), false
	for _, t := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure,
		corev1.NodePIDPressure} {
		switch c := nodes.Condition(after, t); {
		case c == nil:
			changed = true
			after.Status.Conditions = append(after.Status.Conditions, corev1.NodeCondition{
				Type: t, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message:           "Kubelet never posted node status.",
				LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
		case c.Status != corev1.ConditionUnknown:
			changed = true
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown",
				"Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	if !changed {
		return nil
	}
	return after
}

// event is a step that records an event.
func event(o plan.Object, kind, reason, message string) plan.Step {
	return plan.RecordEvent{Object: o, Event: plan.Event{Type: kind, Reason: reason, Message: message}}
}

// announce says once that the node is there (NL-55).
func announce(s snapshot, d *decision) []plan.Step {
	if s.Memory.Announced {
		return nil
	}
	d.Memory.Announced = true
	return []plan.Step{event(s.Node, corev1.EventTypeNormal, "RegisteredNode",
		fmt.Sprintf("Node %s event: Registered Node %[1]s in Controller", s.Name))}
}

// farewell says that the node is gone (NL-56).
func farewell(s snapshot) plan.Plan {
	p := plan.Plan{Why: "the node is gone", Requeue: leastWait} // and then it is forgotten
	if s.Memory.Announced {
		gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, UID: s.Memory.UID}}
		p.Steps = []plan.Step{event(gone, corev1.EventTypeNormal, "RemovingNode",
			fmt.Sprintf("Node %s event: Removing Node %[1]s from Controller", s.Name))}
	}
	return p
}

// firstRemark and lastRemark bound the pause before a pod is marked again that somebody has made ready on an Unknown
// node.
const (
	firstRemark = 10 * time.Second
	lastRemark  = 5 * time.Minute
)

// markPods are the steps that mark the pods of an Unknown node as not ready (NL-50): a level, so that nothing is lost
// when a process ends in between. Pods of a node that may be cut off stay as they are, and so do those of a node that
// has given a sign of life since, until it is silent for the grace period again. A kubelet that says again and again
// that a pod is ready, though the node gives no sign of life, is contradicted more and more rarely: then the next
// time comes after wait.
func markPods(now time.Time, s snapshot, n *corev1.Node, d *decision) (all [][]plan.Step, wait time.Duration) {
	_, left := silence(now, s)
	alive := left > 0 || !s.Memory.Proved
	if r := ready(n); r == nil || r.Status != corev1.ConditionUnknown || mayBeCutOff(n) ||
		alive && s.Memory.Alive.After(r.LastTransitionTime.Time) {
		d.Memory.Marked = nil
		return nil, 0
	}
	marked := map[types.UID]mark{}
	for _, pod := range s.Pods {
		before, again := s.Memory.Marked[pod.UID]
		if again {
			marked[pod.UID] = before
		}
		i := slices.IndexFunc(pod.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if i < 0 || pod.Status.Conditions[i].Status != corev1.ConditionTrue {
			continue
		}
		if left := before.Next.Sub(now); again && left > 0 {
			wait = plan.Sooner(wait, left)
			continue
		}
		marked[pod.UID] = mark{Times: before.Times + 1,
			Next: now.Add(plan.Doubling(firstRemark, lastRemark, before.Times))}
		after := pod.DeepCopy()
		after.Status.Conditions[i].Status, after.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse,
			metav1.NewTime(now)
		all = append(all, []plan.Step{
			event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready"),
			plan.Change{Old: pod, New: after, Subresource: plan.Status, Unowned: true, Why: "its node is Unknown"},
		})
	}
	d.Memory.Marked = marked
	return all, wait
}

// cutOff is the annotation of nodes that may be cut off from the control plane while their pods work on: they get no
// NoExecute taint, and their pods stay ready.
const cutOff = "controller-manager/may-be-cut-off"

// mayBeCutOff reports whether people say that a node may be cut off while its pods work on.
func mayBeCutOff(n *corev1.Node) bool { return n.Annotations[cutOff] == "true" }
