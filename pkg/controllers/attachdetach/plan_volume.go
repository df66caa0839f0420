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
	slow                = 2 * time.Minute  // a driver that has not attached a volume by then is told of (AD-5)
	slowEnd             = 10 * time.Second // the same of one that has not ended to detach it from the same node
	firstTold, lastTold = time.Minute, 16 * time.Minute
)

// volumeSnapshot is what one reconcile of a volume has observed. Its objects belong to shared caches.
type volumeSnapshot struct {
	Volume      volume                        // as its PersistentVolume says, if it has one; empty if nobody knows it any more
	Users       []user                        // the nodes where pods need it, in an order that does not depend on caches
	Attachments []*storagev1.VolumeAttachment // all of the volume, by name
	Memory      volumeMemory
	Unproved    string // why the cache may lack what another leader has written; empty if it does not

	Strays []*storagev1.VolumeAttachment // those of Attachments that name a PersistentVolume which is gone, or another volume by now
	// Of a volume for one node at a time, and of one of which nodes are only told:
	Naming []namer // the nodes whose statuses name it, by name
	// DisableTimeout and Held are those of a nodeSnapshot.
	DisableTimeout bool
	Held           string
}

// namer is a node whose status names a volume, which it lists as attached, or has in use.
type namer struct {
	Node   *corev1.Node
	Needed bool // a pod needs the volume there
	// Unclear: the node is not ready, and a pod there may use the volume, as one of its claims is not bound.
	Unclear bool
}

// user is a node where pods need a volume.
type user struct {
	Node    string
	Pods    []*corev1.Pod // the oldest first
	As      volume        // what it is for these pods; empty: as all others say
	Managed bool          // the node is there, and its kubelet leaves attaching to this controller
}

// volumeMemory is what is remembered of a volume, by node. Whatever was remembered is not changed any more.
type volumeMemory struct {
	Nodes map[string]use
	// Tried are the nodes for which this process has tried to create a VolumeAttachment, and was not told that it did.
	Tried map[string]bool
	// Refused is what the API server has said when it last refused to create the VolumeAttachment of a node.
	Refused map[string]string
}

// use is what is remembered of a node where pods need the volume.
type use struct {
	Attached bool // it was when it was last looked at
	Told     string
	Times    int
	Next     time.Time // when the same is told again
}

// volumeDecision is what was made of a volume.
type volumeDecision struct {
	Why      string
	Nodes    map[string]use
	Attached map[string]time.Duration // nodes where it has been attached since the last look, and how long that has taken
	Failed   map[string]time.Duration // the same of those where its driver says that it could not
}

// planVolume creates the VolumeAttachments that pods need, and tells them what they wait for. Of a volume that needs none, the planner of the node
// writes the list.
func planVolume(now time.Time, s volumeSnapshot) (d volumeDecision, p plan.Plan) {
	d = volumeDecision{Nodes: map[string]use{}, Attached: map[string]time.Duration{}, Failed: map[string]time.Duration{}}
	if s.Volume.Name == "" {
		return d, p
	}
	var why []string
	var each plan.Each // one node does not wait for another one, which may be refused
	first := ""        // the node that gets the volume if no other one has it
	at := s.at()
	for _, u := range s.Users {
		if !u.Managed {
			continue
		}
		first = cmp.Or(first, u.Node)
		as := s.as(u)
		one := as.on(now, u, at(u.Node), first)
		steps, again := as.stepsAt(now, u, one, &d)
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

// as returns the snapshot as pods of a node see the volume: whether it is for one node at a time, and what its VolumeAttachment names, is not for pods of
// others to say.
func (s volumeSnapshot) as(u user) volumeSnapshot {
	if u.As.Name != "" {
		s.Volume = u.As
	}
	return s
}

// stepsAt are those for a node, and when it is to be looked at again. What is told comes first: it never fails, while what is to be told may be that
// the rest does.
func (s volumeSnapshot) stepsAt(now time.Time, u user, one state, d *volumeDecision) (steps []plan.Step, again time.Duration) {
	n, known := s.Memory.Nodes[u.Node]
	if one.Attached {
		if known && !n.Attached {
			if !s.Volume.told() {
				d.Attached[u.Node] = now.Sub(one.Since)
			}
			steps = tell(u, corev1.EventTypeNormal, "SuccessfulAttachVolume", func(*corev1.Pod) string {
				return fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", s.Volume.title())
			})
		}
		d.Nodes[u.Node] = use{Attached: true}
		return steps, 0
	}
	if one.Failed && n.Told != one.Text(u.Pods[0]) {
		d.Failed[u.Node] = now.Sub(one.Since)
	}
	after, due := n.tells(now, one, u.Pods[0])
	if due {
		steps = tell(u, corev1.EventTypeWarning, "FailedAttachVolume", one.Text)
	}
	if one.Create {
		steps = append(steps, plan.Create{Object: newAttachment(s.Volume, u.Node), IfAbsent: true, Unowned: true, Why: one.Why})
	}
	d.Nodes[u.Node] = after
	return steps, plan.Sooner(one.Next, after.wait(now))
}

// state is how a volume does on a node where pods need it.
type state struct {
	Attached bool
	Create   bool // its VolumeAttachment
	Failed   bool // its driver says that it could not attach it
	Since    time.Time
	Why      string
	Text     func(*corev1.Pod) string // what an event says of it to a pod; nil if nothing is to be said yet
	Next     time.Duration            // when that changes by the clock; zero: never
}

// on says how the volume does on a node, where it may have a VolumeAttachment. first is the node that gets it if no other one has it.
func (s volumeSnapshot) on(now time.Time, u user, a *storagev1.VolumeAttachment, first string) (one state) {
	var others []string
	var unheard time.Duration
	if a == nil && s.Volume.Exclusive {
		others, unheard = s.others(now, u.Node)
	}
	switch {
	case s.Volume.told() && slices.ContainsFunc(s.Naming, func(n namer) bool { return n.Node.Name == u.Node && lists(n.Node, onNode{Name: s.Volume.Name}) }):
		return state{Attached: true}
	case attached(a):
		return state{Attached: true, Since: a.CreationTimestamp.Time}
	case a != nil:
		return pending(now, s.Volume, a)
	case s.Volume.Exclusive && len(others) > 0: // also if the driver does not say that it is attached there: it may be (AD-87)
		return state{Why: fmt.Sprintf("%s waits until it is detached from %s", u.Node, strings.Join(others, ", ")), Text: s.taken(others), Next: unheard}
	case s.Volume.Exclusive && first != u.Node: // the choice does not depend on chance (AD-80)
		return state{Why: fmt.Sprintf("%s waits, as a pod that needs it is older, on %s", u.Node, first), Text: s.taken([]string{first})}
	case s.Unproved != "":
		return state{Why: s.Unproved, Next: lookAgain}
	case s.Volume.told():
		return state{Why: u.Node + " is to be told of it"}
	}
	one = state{Create: true, Why: "it is to be attached to " + u.Node}
	if refused := s.Memory.Refused[u.Node]; refused != "" {
		one.Text = failure(s.Volume, refused)
	}
	return one
}

// pending is the state of a volume whose driver is at work.
func pending(now time.Time, v volume, a *storagev1.VolumeAttachment) state {
	one := state{Since: a.CreationTimestamp.Time, Why: "its driver is asked to attach it to " + a.Spec.NodeName + said(a.Status.AttachError)}
	switch e := a.Status.AttachError; {
	case a.DeletionTimestamp != nil:
		one.Why = fmt.Sprintf("its driver is asked to detach it from %s, where it is needed again%s", a.Spec.NodeName, said(a.Status.DetachError))
		if one.Next = slowEnd - now.Sub(a.DeletionTimestamp.Time); one.Next <= 0 {
			one.Next, one.Text = 0, failure(v, "volume attachment is being deleted")
		}
	case e != nil && e.Message != "":
		one.Failed, one.Text = true, failure(v, e.Message)
	default:
		if one.Next = slow - now.Sub(a.CreationTimestamp.Time); one.Next <= 0 {
			one.Next = 0
			one.Text = failure(v, fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to attach volume %s", v.Driver, v.Handle))
		}
	}
	return one
}

// at returns a function that returns the VolumeAttachment by which the volume is attached to a node, nil if there is none.
func (s volumeSnapshot) at() func(node string) *storagev1.VolumeAttachment {
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

// others are the nodes besides this one that have a VolumeAttachment of the volume, or have it by what their statuses say, sorted. If no event
// tells when one of them has it no more, they are to be looked at again after a time.
func (s volumeSnapshot) others(now time.Time, node string) (names []string, again time.Duration) {
	nodes := map[string]bool{}
	for _, a := range s.Attachments {
		if a.Spec.NodeName != node {
			nodes[a.Spec.NodeName] = true
		}
	}
	for _, n := range s.Naming {
		if n.Node.Name != node && !nodes[n.Node.Name] && n.has(now, onNode{Name: s.Volume.Name}, s.DisableTimeout, s.Held) {
			nodes[n.Node.Name], again = true, lookAgain
		}
	}
	if len(s.Strays) > 0 {
		again = lookAgain
	}
	return slices.Sorted(maps.Keys(nodes)), again
}

// has reports whether a node has a volume by what its status says. A kubelet says that it uses what it still waits for, too; so what counts, while
// a pod needs the volume there, is what the kubelet was told. What may be taken from the node by force counts no more.
func (n namer) has(now time.Time, v onNode, disableTimeout bool, held string) bool {
	told := lists(n.Node, v)
	switch {
	case managed(n.Node) && told:
		return true // until it is told otherwise, which is the work of its own planner
	case managed(n.Node) && n.Needed, !told && !uses(n.Node, v):
		return false
	}
	reason, _ := force(now, n.Node, time.Time{}, disableTimeout || n.Unclear)
	return reason == "" || reason == forcedByTime && holds(now, held, nodes.ReadyChanged(n.Node))
}

// taken tells pods that other nodes have the volume: by the pods that use it there, of which only those of the same namespace are named (AD-52,
// AD-53).
func (s volumeSnapshot) taken(nodes []string) func(*corev1.Pod) string {
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
			return text + "exclusively attached to one node, waiting on detach before it can be attached to another node"
		case elsewhere == 0:
			return text + "used by pod(s) " + strings.Join(names, ", ")
		case len(names) == 0:
			return fmt.Sprintf("%sused by %d pod(s) in different namespaces", text, elsewhere)
		}
		return fmt.Sprintf("%sused by pod(s) %s and %d pod(s) in different namespaces", text, strings.Join(names, ", "), elsewhere)
	}
}

// failure tells pods that a volume could not be attached (AD-51).
func failure(v volume, why string) func(*corev1.Pod) string {
	return func(*corev1.Pod) string {
		return fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", v.title(), why)
	}
}

// tells says whether something is told now: what has not been told at once, and the same again after ever longer times.
func (n use) tells(now time.Time, one state, first *corev1.Pod) (after use, due bool) {
	n.Attached = false
	if one.Text == nil {
		return n, false
	}
	switch text := one.Text(first); {
	case n.Told != text:
		return use{Told: text, Times: 1, Next: now.Add(firstTold)}, true
	case now.Before(n.Next):
		return n, false
	}
	n.Next = now.Add(plan.Doubling(firstTold, lastTold, n.Times))
	n.Times++
	return n, true
}

// wait is the time until the same is told again.
func (n use) wait(now time.Time) time.Duration {
	if n.Next.IsZero() {
		return 0
	}
	return n.Next.Sub(now)
}

// tell records an event for each pod of a node.
func tell(u user, kind, reason string, text func(*corev1.Pod) string) (steps []plan.Step) {
	for _, p := range u.Pods {
		steps = append(steps, plan.RecordEvent{Object: p, Event: plan.Event{Type: kind, Reason: reason, Message: text(p)}})
	}
	return steps
}

// rememberVolume keeps what was seen and told, and which creations have failed, or may have been carried out.
func rememberVolume(_ time.Time, s volumeSnapshot, d volumeDecision, did plan.Outcome) *volumeMemory {
	m := volumeMemory{Nodes: d.Nodes, Tried: map[string]bool{}, Refused: map[string]string{}}
	at := s.at()
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
			if !errors.Is(r.Err, plan.ErrStale) && !apierrors.IsTooManyRequests(r.Err) { // these say nothing about the volume
				m.Refused[a.Spec.NodeName] = r.Err.Error()
			}
		}
	}
	return &m
}
