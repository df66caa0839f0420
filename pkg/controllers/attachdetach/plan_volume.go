package attachdetach

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	attachTimeout    = 2 * time.Minute  // after it, events report that a driver has not attached a volume (AD-5)
	detachTimeout    = 10 * time.Second // the same of a driver that detaches it from the same node
	minEventInterval = time.Minute
	maxEventInterval = 16 * time.Minute
)

// volumeSnapshot is what one reconcile of a volume has observed. Its objects belong to shared caches.
type volumeSnapshot struct {
	Volume      volume                        // as its PersistentVolume defines it; empty: not known any more
	Users       []usingNode                   // the nodes where pods need it, that of the oldest pod first
	Attachments []*storagev1.VolumeAttachment // all of the volume, by name
	Memory      volumeMemory
	NotCompared string // why the cache may lack what another leader has written; empty if it does not

	Misnamed []*storagev1.VolumeAttachment // those of Attachments whose PersistentVolume does not define the volume
	// For exclusive and status-only volumes:
	ReportingNodes []reportingNode // the nodes whose statuses name it, by name
	// DisableTimeout and Held are those of a nodeSnapshot.
	DisableTimeout bool
	Held           string
}

// reportingNode is a node whose status names a volume, which it lists as attached, or has in use.
type reportingNode struct {
	Node   *corev1.Node
	Needed bool // a pod needs the volume there
	// UnboundClaim: the node is not ready, and a pod there may use the volume, as one of its claims is not bound.
	UnboundClaim bool
}

// usingNode is a node where pods need a volume.
type usingNode struct {
	Node    string
	Pods    []*corev1.Pod // the oldest first
	Volume  volume        // the volume as these pods define it; empty: as all others do
	Managed bool          // the node is there, and its kubelet leaves attaching to this controller
	MayRun  bool          // the node is gone, and its machine may still run one of the pods
}

// volumeMemory is what is remembered of a volume, by node. Whatever was remembered is not changed any more.
type volumeMemory struct {
	Nodes map[string]usingNodeMemory
	// Tried are the nodes for which this process has tried to create a VolumeAttachment without an answer.
	Tried map[string]bool
	// Refused is what the API server has said when it last refused to create the VolumeAttachment of a node.
	Refused map[string]string
}

// usingNodeMemory is what is remembered of a node where pods need a volume.
type usingNodeMemory struct {
	Attached  bool // it was when it was last looked at
	Message   string
	Count     int
	NextEvent time.Time // when the same event is repeated
}

// volumeDecision is what was made of a volume.
type volumeDecision struct {
	Why      string
	Nodes    map[string]usingNodeMemory
	Attached map[string]time.Duration // nodes where it is attached now and was not before, and how long that took
	Failed   map[string]time.Duration // the same of those where its driver says that it could not
}

// planVolume creates the VolumeAttachments that pods need, and records events about what pods wait for. A status-only
// volume needs none: planNode lists it.
func planVolume(now time.Time, s volumeSnapshot) (d volumeDecision, p plan.Plan) {
	d = volumeDecision{Nodes: map[string]usingNodeMemory{}, Attached: map[string]time.Duration{},
		Failed: map[string]time.Duration{}}
	if s.Volume.Name == "" {
		return d, p
	}
	var why []string
	var each plan.Each // one node does not wait for another one, which may be refused
	first := ""        // the node that gets the volume if no other one has it
	at := s.attachmentsByNode()
	for _, u := range s.Users {
		if !u.Managed {
			continue
		}
		first = cmp.Or(first, u.Node)
		as := s.asSeenBy(u)
		one := as.stateOn(now, u, at(u.Node), first)
		steps, again := as.stepsFor(now, u, one, &d)
		if len(steps) > 0 {
			each.Sequences = append(each.Sequences, steps)
		}
		if p.Requeue = plan.Sooner(p.Requeue, again); !one.Attached {
			why = append(why, one.Why)
		}
	}
	if len(each.Sequences) > 0 {
		p.Steps = []plan.Step{each}
	}
	p.Why = summary(why)
	d.Why = p.Why
	return d, p
}

// asSeenBy returns the snapshot as pods of a node see the volume: whether it is for one node at a time, and what its
// VolumeAttachment names, is not for pods of others to say.
func (s volumeSnapshot) asSeenBy(u usingNode) volumeSnapshot {
	if u.Volume.Name != "" {
		s.Volume = u.Volume
	}
	return s
}

// stepsFor returns the steps for a node, and when it is to be looked at again. Events come first, because they may
// report that the other steps fail.
func (s volumeSnapshot) stepsFor(
	now time.Time, u usingNode, one state, d *volumeDecision,
) (steps []plan.Step, again time.Duration) {
	n, known := s.Memory.Nodes[u.Node]
	if one.Attached {
		if known && !n.Attached {
			if !s.Volume.statusOnly() {
				d.Attached[u.Node] = now.Sub(one.Since)
			}
			steps = recordEvents(u, corev1.EventTypeNormal, "SuccessfulAttachVolume", func(*corev1.Pod) string {
				return fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", s.Volume.title())
			})
		}
		d.Nodes[u.Node] = usingNodeMemory{Attached: true}
		return steps, 0
	}
	if one.Failed && n.Message != one.Message(u.Pods[0]) {
		d.Failed[u.Node] = now.Sub(one.Since)
	}
	after, due := n.nextEvent(now, one, u.Pods[0])
	if due {
		steps = recordEvents(u, corev1.EventTypeWarning, "FailedAttachVolume", one.Message)
	}
	if one.Create {
		steps = append(steps, plan.Create{Object: newAttachment(s.Volume, u.Node), IfAbsent: true, Unowned: true,
			Why: one.Why})
	}
	d.Nodes[u.Node] = after
	return steps, plan.Sooner(one.Requeue, after.untilNextEvent(now))
}

// state is how a volume does on a node where pods need it.
type state struct {
	Attached bool
	Create   bool // its VolumeAttachment
	Failed   bool // its driver says that it could not attach it
	Since    time.Time
	Why      string
	Message  func(*corev1.Pod) string // of the event of a pod; nil if there is none yet
	Requeue  time.Duration            // when that changes by the clock; zero: never
}

// stateOn returns the state of the volume on a node, where it may have a VolumeAttachment. first is the node that gets
// it if no other one has it.
func (s volumeSnapshot) stateOn(now time.Time, u usingNode, a *storagev1.VolumeAttachment, first string) (one state) {
	var others []string
	var recheck time.Duration
	if a == nil && s.Volume.Exclusive {
		others, recheck = s.others(now, u.Node)
	}
	switch {
	case s.Volume.statusOnly() && slices.ContainsFunc(s.ReportingNodes, func(n reportingNode) bool {
		return n.Node.Name == u.Node && lists(n.Node, nodeVolume{Name: s.Volume.Name})
	}):
		return state{Attached: true}
	case attached(a):
		return state{Attached: true, Since: a.CreationTimestamp.Time}
	case a != nil:
		return pending(now, s.Volume, a)
	case s.Volume.Exclusive && len(others) > 0: // also if the driver does not say that it is attached there (AD-87)
		return state{Why: fmt.Sprintf("%s waits until it is detached from %s", u.Node, strings.Join(others, ", ")),
			Message: s.multiAttachMessage(others), Requeue: recheck}
	case s.Volume.Exclusive && first != u.Node: // the choice does not depend on chance (AD-80)
		return state{Why: fmt.Sprintf("%s waits, as a pod that needs it is older, on %s", u.Node, first),
			Message: s.multiAttachMessage([]string{first})}
	case s.NotCompared != "":
		return state{Why: s.NotCompared, Requeue: recheckInterval}
	case s.Volume.statusOnly():
		return state{Why: u.Node + " is to list it as attached"}
	}
	one = state{Create: true, Why: "it is to be attached to " + u.Node}
	if refused := s.Memory.Refused[u.Node]; refused != "" {
		one.Message = attachFailedMessage(s.Volume, refused)
	}
	return one
}

// pending is the state of a volume whose driver is at work.
func pending(now time.Time, v volume, a *storagev1.VolumeAttachment) state {
	one := state{Since: a.CreationTimestamp.Time}
	one.Why = "its driver is asked to attach it to " + a.Spec.NodeName + driverError(a.Status.AttachError)
	switch e := a.Status.AttachError; {
	case a.DeletionTimestamp != nil:
		one.Why = fmt.Sprintf("its driver is asked to detach it from %s, where it is needed again%s", a.Spec.NodeName,
			driverError(a.Status.DetachError))
		if one.Requeue = detachTimeout - now.Sub(a.DeletionTimestamp.Time); one.Requeue <= 0 {
			one.Requeue, one.Message = 0, attachFailedMessage(v, "volume attachment is being deleted")
		}
	case e != nil && e.Message != "":
		one.Failed, one.Message = true, attachFailedMessage(v, e.Message)
	default:
		if one.Requeue = attachTimeout - now.Sub(a.CreationTimestamp.Time); one.Requeue <= 0 {
			one.Requeue = 0
			one.Message = attachFailedMessage(v,
				fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to attach volume %s",
					v.Driver, v.Handle))
		}
	}
	return one
}

// attachmentsByNode returns a function that returns the VolumeAttachment by which the volume is attached to a node, nil
// if there is none.
func (s volumeSnapshot) attachmentsByNode() func(node string) *storagev1.VolumeAttachment {
	byName := make(map[string]*storagev1.VolumeAttachment, len(s.Attachments))
	for _, a := range s.Attachments {
		byName[a.Name] = a
	}
	return func(node string) *storagev1.VolumeAttachment {
		a := byName[volumes.AttachmentName(s.Volume.Driver, s.Volume.Handle, node)]
		if a != nil && a.Spec.NodeName == node {
			return a
		}
		return nil
	}
}

// others are the nodes besides this one that have a VolumeAttachment of the volume, or have it by what their statuses
// say, sorted. If no event reports when one of them no longer has it, they are looked at again after a time.
func (s volumeSnapshot) others(now time.Time, node string) (names []string, recheck time.Duration) {
	nodes := map[string]bool{}
	for _, a := range s.Attachments {
		if a.Spec.NodeName != node {
			nodes[a.Spec.NodeName] = true
		}
	}
	for _, n := range s.ReportingNodes {
		if n.Node.Name != node && !nodes[n.Node.Name] &&
			n.hasVolume(now, nodeVolume{Name: s.Volume.Name}, s.DisableTimeout, s.Held) {
			nodes[n.Node.Name], recheck = true, recheckInterval
		}
	}
	for _, u := range s.Users {
		if u.MayRun && u.Node != node && s.Volume.statusOnly() { // no VolumeAttachment shows that
			nodes[u.Node], recheck = true, recheckInterval
		}
	}
	if len(s.Misnamed) > 0 {
		recheck = recheckInterval
	}
	return slices.Sorted(maps.Keys(nodes)), recheck
}

// hasVolume reports whether a node has a volume, by its status. A kubelet has also volumes in use for which it still
// waits. So while a pod needs the volume there, only the list of attached volumes counts. A volume that may be detached
// by force counts no more.
func (n reportingNode) hasVolume(now time.Time, v nodeVolume, disableTimeout bool, held string) bool {
	listed := lists(n.Node, v)
	switch {
	case managed(n.Node) && listed:
		return true // until planNode no longer lists it
	case managed(n.Node) && n.Needed, !listed && !uses(n.Node, v):
		return false
	}
	reason, _ := forceRuleNodeExists(now, n.Node, time.Time{}, disableTimeout || n.UnboundClaim)
	return reason == "" || reason == forcedByTime && holds(now, held, nodes.ReadyChanged(n.Node))
}

// multiAttachMessage returns the message of the event that other nodes have the volume. It names the pods there that
// are of the same namespace, and counts all others (AD-52, AD-53).
func (s volumeSnapshot) multiAttachMessage(nodes []string) func(*corev1.Pod) string {
	return func(p *corev1.Pod) string {
		var names []string
		elsewhere := 0
		for _, u := range s.Users {
			if !slices.Contains(nodes, u.Node) {
				continue
			}
			for _, other := range u.Pods {
				if other.Namespace == p.Namespace {
					names = append(names, other.Name)
				} else {
					elsewhere++
				}
			}
		}
		slices.Sort(names)
		text := fmt.Sprintf("Waiting for detach for volume %q Volume is already ", s.Volume.title())
		switch {
		case len(names) == 0 && elsewhere == 0:
			return text + "exclusively attached to one node, " +
				"waiting on detach before it can be attached to another node"
		case elsewhere == 0:
			return text + "used by pod(s) " + strings.Join(names, ", ")
		case len(names) == 0:
			return fmt.Sprintf("%sused by %d pod(s) in different namespaces", text, elsewhere)
		}
		return fmt.Sprintf("%sused by pod(s) %s and %d pod(s) in different namespaces", text, strings.Join(names, ", "),
			elsewhere)
	}
}

// attachFailedMessage returns the message of the event that a volume could not be attached (AD-51).
func attachFailedMessage(v volume, why string) func(*corev1.Pod) string {
	return func(*corev1.Pod) string {
		return fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", v.title(), why)
	}
}

// nextEvent reports whether an event is due: a new message at once, and the same one again after ever longer times.
func (n usingNodeMemory) nextEvent(now time.Time, one state, first *corev1.Pod) (after usingNodeMemory, due bool) {
	n.Attached = false
	if one.Message == nil {
		return n, false
	}
	switch text := one.Message(first); {
	case n.Message != text:
		return usingNodeMemory{Message: text, Count: 1, NextEvent: now.Add(minEventInterval)}, true
	case now.Before(n.NextEvent):
		return n, false
	}
	n.NextEvent = now.Add(plan.Doubling(minEventInterval, maxEventInterval, n.Count))
	n.Count++
	return n, true
}

// untilNextEvent is the time until the same event is repeated.
func (n usingNodeMemory) untilNextEvent(now time.Time) time.Duration {
	if n.NextEvent.IsZero() {
		return 0
	}
	return n.NextEvent.Sub(now)
}

// recordEvents records an event for each pod of a node.
func recordEvents(u usingNode, kind, reason string, text func(*corev1.Pod) string) (steps []plan.Step) {
	for _, p := range u.Pods {
		steps = append(steps, plan.RecordEvent{Object: p,
			Event: plan.Event{Type: kind, Reason: reason, Message: text(p)}})
	}
	return steps
}

// rememberVolume keeps what was seen and the last events, and which creations have failed, or may have been carried
// out.
func rememberVolume(_ time.Time, s volumeSnapshot, d volumeDecision, did plan.Outcome) *volumeMemory {
	m := volumeMemory{Nodes: d.Nodes, Tried: map[string]bool{}, Refused: map[string]string{}}
	at := s.attachmentsByNode()
	for node := range s.Memory.Tried {
		if at(node) == nil {
			m.Tried[node] = true
		}
	}
	for _, r := range did.Results {
		a, ok := r.Object.(*storagev1.VolumeAttachment)
		if !ok || r.Verb != plan.Created {
			continue
		}
		if delete(m.Tried, a.Spec.NodeName); r.Err != nil {
			m.Tried[a.Spec.NodeName] = true
			// these say nothing about the volume
			if !errors.Is(r.Err, plan.ErrStale) && !apierrors.IsTooManyRequests(r.Err) {
				m.Refused[a.Spec.NodeName] = r.Err.Error()
			}
		}
	}
	return &m
}
