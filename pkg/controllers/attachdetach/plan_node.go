package attachdetach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	unmountTimeout = 6 * time.Minute // for so long, a node that is not ready keeps what it has in use (AD-5, AD-34)
	goneGrace      = time.Minute     // a machine whose Node is gone has so long to end what ran on it
	// the brake holds no longer: then so many Nodes have been gone, or not ready, for long
	goneProof = 10 * time.Minute
	// a node that has not been ready for so long does not count for the brake any more
	oldNews         = time.Hour
	rereadInterval  = 5 * time.Second  // when a node is read again that could not be read
	recheckInterval = 10 * time.Second // when a decision is looked at again that depends on something else
	writePause      = time.Second      // the status of a node is written no more often
	// While volumes keep coming, it is written when none has come for writePause, or after burstPause.
	burstPause   = 3 * time.Second
	writesAtOnce = 2 // so many of a burst do not wait for that
)

// nodeSnapshot is what one reconcile of a node has observed. Its objects belong to shared caches.
type nodeSnapshot struct {
	Name    string
	Node    *corev1.Node // nil: it is gone
	Volumes []nodeVolume // all that are attached, or needed there, by name
	// DisableTimeout: that a node is not ready is never enough to detach what it has in use (AD-3).
	DisableTimeout bool
	// PodWithUnboundClaim is a pod on a node that is not ready or gone that may use any of its volumes, as one of its
	// claims is not bound; empty if there is none. While it is there, no rule of time applies (AD-18).
	PodWithUnboundClaim string
	Memory              nodeMemory
	NotCompared         string // why the cache may lack what another leader has written; empty if it does not
	Reserved            bool   // exclusive status-only volumes are reserved for it

	// Of what is read live when something may be detached:
	Read   bool
	Live   *corev1.Node // nil: it is gone
	Unread string       // why the node could not be read
	Held   string       // why the brake holds what is detached by force without anybody's word; empty if it does not
}

// nodeVolume is a volume that is attached to a node, or needed there.
type nodeVolume struct {
	Name        string                      // in the status of the node; empty if nobody knows it any more
	Attachment  *storagev1.VolumeAttachment // nil if there is none
	Pod         string                      // one that needs it there; empty if none does
	Terminating bool                        // all that need it are being deleted
	Grace       time.Duration               // how long the pods that need it may take to end
	StatusOnly  bool                        // it needs no VolumeAttachment
	Exclusive   bool                        // it is for one node at a time
	OtherNode   string                      // of an exclusive status-only volume: another node that has it
}

// id identifies a volume among those of its node.
func (v nodeVolume) id() string {
	if v.Attachment != nil {
		return v.Attachment.Name
	}
	return v.Name
}

// nodeMemory is what is remembered of a node. Whatever was remembered is not changed any more.
type nodeMemory struct {
	UID             types.UID                // of the Node that the rest is about
	Gone            time.Time                // since when it is gone, as this process has seen it; zero if it is there
	UnneededSince   map[string]time.Time     // since when no pod needs a volume, as this process has seen it, by its id
	Grace           map[string]time.Duration // how long the pods of a volume may take to end, by its id
	Written         time.Time                // when the status was last written
	Failed          time.Time                // when that has failed, if it has
	Burst           int                      // how many writes came one after the other, up to Written
	Unwritten       int                      // how many volumes the status lacks or should not list
	UnwrittenSince  time.Time                // since when that is the number
	Asked           map[string]asked         // VolumeAttachments that this process has deleted, by name
	HadUnboundClaim bool                     // PodWithUnboundClaim was set, see nodeSnapshot
}

// asked is when a driver was asked to detach a volume.
type asked struct {
	When   time.Time
	Plugin string // as metrics name it
}

// nodeDecision is what was made of a node.
type nodeDecision struct {
	Gone          time.Time
	UnneededSince map[string]time.Time
	Grace         map[string]time.Duration
	Deleted       map[string]string // VolumeAttachments that are deleted: the reason if it is by force, empty if not
	Reserves      []string          // exclusive status-only volumes that the status lists from now on
	Retains       map[string]bool   // reserved volumes of a node that is gone and may still use them
	Unwritten     int               // how many volumes the status lacks or should not list
	Verdicts      map[string]string // what becomes of a volume and why, by the name of its VolumeAttachment
}

// The reasons for which a volume is detached although its node may have it in use (AD-54).
const (
	forcedByTaint = "out-of-service"
	forcedByTime  = "timeout"
	forcedByEnd   = "node-gone"
)

// verdict is what becomes of a volume on a node.
type verdict struct {
	List    bool          // the node's kubelet may mount it
	Delete  bool          // its VolumeAttachment is deleted
	Forced  string        // why it is deleted although the node may have it in use
	Read    bool          // it may go, and the node is to be read first
	Held    bool          // the brake holds it
	Why     string        // for people
	Settled bool          // that is as it should be
	Requeue time.Duration // when it is to be looked at again; zero: something will happen
}

// planNode lists in the status of a node what is attached, and detaches what no pod there needs.
func planNode(now time.Time, s nodeSnapshot) (d nodeDecision, p plan.Plan) {
	d = nodeDecision{UnneededSince: map[string]time.Time{}, Grace: map[string]time.Duration{},
		Retains: map[string]bool{}, Deleted: map[string]string{}, Verdicts: map[string]string{}}
	if s.Node == nil {
		d.Gone = earlier(s.Memory.Gone, now)
	} else if !managed(s.Node) {
		p.Why, p.Hold.Ended = "its kubelet attaches volumes itself", plan.NothingLeft
		return d, p
	}
	if s.NotCompared != "" {
		d.UnneededSince, d.Grace = s.Memory.UnneededSince, s.Memory.Grace
		p.Why, p.Requeue = s.NotCompared, recheckInterval
		return d, p
	}
	var deletions plan.Each
	var why []string
	keep, held := map[string]bool{}, false
	for _, v := range s.Volumes {
		if grace, known := s.Memory.Grace[v.id()]; known || v.Pod != "" {
			d.Grace[v.id()] = max(grace, v.Grace)
		}
		if v.Pod == "" {
			d.UnneededSince[v.id()] = earlier(s.Memory.UnneededSince[v.id()], now)
			if s.PodWithUnboundClaim != "" || s.Memory.HadUnboundClaim {
				d.UnneededSince[v.id()] = now // a pod may have needed it until now
			}
		}
		one := verdictOf(now, s, v, &d)
		keep[v.Name] = keep[v.Name] || one.List
		d.Retains[v.Name] = d.Retains[v.Name] || s.Node == nil && v.StatusOnly && (v.Pod != "" || !one.Settled)
		p.Requeue = plan.Sooner(p.Requeue, one.Requeue)
		if held = held || one.Held; one.Read {
			p.Proof = []plan.Ref{nodeRef(s.Name)}
		}
		if v.Attachment != nil {
			d.Verdicts[v.Attachment.Name] = one.Why
		}
		if !one.Settled {
			why = append(why, v.id()+": "+one.Why)
		}
		if one.Delete {
			d.Deleted[v.Attachment.Name] = one.Forced
			deletions.Sequences = append(deletions.Sequences,
				[]plan.Step{plan.Delete{Objects: []plan.Object{v.Attachment}, Unowned: true, Why: one.Why}})
		}
	}
	if len(deletions.Sequences) > 0 {
		p.Steps = append(p.Steps, deletions)
	}
	if p.Why = summary(why); s.Node == nil && len(s.Volumes) == 0 {
		p.Why, p.Requeue = "it is gone, and nothing is attached to it", recheckInterval // and then it is forgotten
	}
	if s.Node != nil {
		planVolumesAttached(now, s, keep, &d, &p)
	}
	if s.Node != nil && s.Reserved {
		p.Requeue = plan.Sooner(p.Requeue, s.untilReported(now))
	}
	p.Hold = s.hold(held, d)
	return d, p
}

// whatIsHeld is what the brake holds, in words.
const whatIsHeld = "volumes of nodes that are not ready or gone"

// hold says what the brake holds of a node. If that is nothing, it says why none of its volumes is held any more.
func (s nodeSnapshot) hold(held bool, d nodeDecision) plan.Hold {
	switch {
	case held:
		return plan.Hold{What: whatIsHeld, Why: s.Held}
	case len(s.Volumes) == 0:
		return plan.Hold{Ended: plan.NothingLeft}
	case len(d.Deleted) > 0 && s.Held != "":
		return plan.Hold{Ended: plan.ByTime}
	}
	return plan.Hold{}
}

func nodeRef(name string) plan.Ref {
	return plan.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Name: name}
}

// earlier is a time, or now if it is not known.
func earlier(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}

// maxSummaryLines bounds how many volumes a record of a node names.
const maxSummaryLines = 10

func summary(lines []string) string {
	if more := len(lines) - maxSummaryLines; more > 0 {
		lines = append(slices.Clone(lines[:maxSummaryLines]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

// verdictOf decides about a volume. The decision has since when no pod needs it, and since when the node is gone.
func verdictOf(now time.Time, s nodeSnapshot, v nodeVolume, d *nodeDecision) verdict {
	a := v.Attachment
	switch {
	case v.Pod == "" && (a == nil || ours(a) && a.DeletionTimestamp == nil):
		return verdictUnneeded(now, s, v, d)
	case v.StatusOnly && v.OtherNode != "":
		return verdict{Why: "it waits until " + v.OtherNode + " does without the volume", Requeue: recheckInterval}
	case v.StatusOnly:
		return verdict{List: true, Why: "the pod " + v.Pod + " needs it", Settled: s.Node != nil}
	case a == nil:
		return verdict{Settled: true} // the planner of the volume makes one
	case !ours(a):
		return verdict{Why: "somebody else has made it", Settled: true}
	case a.DeletionTimestamp != nil:
		return verdict{Why: "its driver is asked to detach it" + driverError(a.Status.DetachError)}
	case !a.Status.Attached:
		return verdict{Why: "its driver is asked to attach it" + driverError(a.Status.AttachError)}
	}
	why, settled := "the pod "+v.Pod+" needs it", true
	if v.Terminating {
		why, settled = why+" as long as it may run, and is being deleted", false
	}
	if s.Node == nil {
		why, settled = why+", and its node is gone", false
	}
	return verdict{List: true, Why: why, Settled: settled}
}

// driverError returns the text of an error that a driver has reported.
func driverError(e *storagev1.VolumeError) string {
	if e == nil || e.Message == "" {
		return ""
	}
	return ", and says: " + e.Message
}

// verdictUnneeded decides about a volume that no pod needs. First the status of the node no longer lists it (AD-32).
// Then the VolumeAttachment is deleted, if the node read live neither lists the volume nor has it in use. A rule of
// force has it deleted even if the node has it in use.
func verdictUnneeded(now time.Time, s nodeSnapshot, v nodeVolume, d *nodeDecision) verdict {
	forced, wait := s.forceRule(now, s.Node, v, d)
	used := s.Node != nil && uses(s.Node, v)
	if used && forced == forcedByTime && s.holds(now, s.Node, v, d) {
		return verdict{List: v.StatusOnly || attached(v.Attachment), Held: true,
			Requeue: recheckInterval,
			Why:     "no pod needs it, and the node is not ready and has it in use, but " + s.Held}
	}
	switch {
	case s.Node == nil && forced == "":
		return verdict{Why: "its node is gone" + s.unboundClaimNote(), Requeue: wait,
			Held: s.Held != "" && s.PodWithUnboundClaim == ""}
	case used && forced == "":
		why := "no pod needs it, and the node has it in use"
		if wait > 0 {
			why += fmt.Sprintf("; as the node is not ready, it is detached %v after that", unmountTimeout)
		}
		return verdict{List: v.StatusOnly || attached(v.Attachment), Why: why + s.unboundClaimNote(), Requeue: wait}
	case v.Attachment == nil && s.Node == nil:
		return verdict{Settled: true, Requeue: recheckInterval} // and then nothing is reserved for it any more
	case v.Attachment == nil:
		return verdict{Settled: true}
	case s.Node != nil && lists(s.Node, v):
		return verdict{Why: "no pod needs it, and its status is to list it no more"}
	case s.Unread != "":
		return verdict{Why: "no pod needs it, but its node cannot be read: " + s.Unread, Requeue: rereadInterval}
	case !s.Read:
		return verdict{Read: true, Why: "no pod needs it, and its node is to be read"}
	}
	return verdictAfterLiveRead(now, s, v, d)
}

// unboundClaimNote names the pod for which no rule of time applies.
func (s nodeSnapshot) unboundClaimNote() string {
	if s.PodWithUnboundClaim == "" {
		return ""
	}
	return "; the pod " + s.PodWithUnboundClaim + " may use it, as a claim of that pod is not bound"
}

// verdictAfterLiveRead decides by the node as it was read live, and no longer by the caches.
func verdictAfterLiveRead(now time.Time, s nodeSnapshot, v nodeVolume, d *nodeDecision) verdict {
	forced, wait := s.forceRule(now, s.Live, v, d)
	if s.Live == nil {
		if s.Node != nil {
			return verdict{Why: "its node is gone", Requeue: rereadInterval} // the cache is about to say so
		}
		return verdict{Delete: forced != "", Forced: forced, Why: "no pod needs it, and its node is gone",
			Requeue: wait}
	}
	if s.Node == nil || s.Node.UID != s.Live.UID || lists(s.Live, v) {
		return verdict{Why: "the cache of nodes is behind", Requeue: recheckInterval}
	}
	used, free := uses(s.Live, v), "no pod needs it, and the node does not have it in use"
	if made := s.Live.CreationTimestamp; !used && v.Attachment.CreationTimestamp.Before(&made) {
		// the machine has been another Node's
		if wait := goneGrace - now.Sub(made.Time); wait > 0 && forced != forcedByTaint {
			return verdict{Requeue: wait, Why: "no pod needs it, and its node was made anew a moment ago, " +
				"and may not have said yet what it has in use"}
		}
	}
	if !used {
		return verdict{Delete: true, Why: free}
	}
	switch forced {
	case forcedByTaint:
		return verdict{Delete: true, Forced: forced, Why: "no pod needs it, and the node is out of service"}
	case forcedByTime:
		if s.holds(now, s.Live, v, d) {
			return verdict{Held: true, Why: "the node is not ready and has it in use, but " + s.Held,
				Requeue: recheckInterval}
		}
		return verdict{Delete: true, Forced: forced,
			Why: fmt.Sprintf("no pod has needed it for %v, and the node is not ready", unmountTimeout)}
	default:
		return verdict{Why: "the node has it in use" + s.unboundClaimNote(), Requeue: cmp.Or(wait, rereadInterval)}
	}
}

// holds reports whether the brake holds a volume that is to be detached because its node is not ready. It does for a
// while: where so many nodes have been so for long, a site is lost, and force is what is left.
func (s nodeSnapshot) holds(now time.Time, n *corev1.Node, v nodeVolume, d *nodeDecision) bool {
	since := d.UnneededSince[v.id()]
	if unready := nodes.ReadyChanged(n); unready.After(since) {
		since = unready
	}
	return holds(now, s.Held, since)
}

// holds is the same of what nobody needs since a time on a node that is not ready.
func holds(now time.Time, held string, since time.Time) bool {
	return held != "" && now.Sub(since) < goneProof
}

// forceRule returns the rule by which a volume may be detached although the node may have it in use, or in how long a
// rule may apply.
func (s nodeSnapshot) forceRule(
	now time.Time, n *corev1.Node, v nodeVolume, d *nodeDecision,
) (reason string, wait time.Duration) {
	switch {
	case n != nil:
		return forceRuleNodeExists(now, n, d.UnneededSince[v.id()], s.DisableTimeout || s.PodWithUnboundClaim != "")
	case s.PodWithUnboundClaim != "":
		return "", recheckInterval
	}
	return forceRuleNodeGone(now, s, v, d)
}

// forceRuleNodeExists is forceRule for a node that exists (AD-34, AD-35, AD-37). No pod has needed the volume since a
// time. untimed: no rule of time applies.
func forceRuleNodeExists(
	now time.Time, n *corev1.Node, since time.Time, untimed bool,
) (reason string, wait time.Duration) {
	switch {
	case nodes.OutOfService(n):
		return forcedByTaint, 0
	case nodes.Ready(n) || untimed:
		return "", 0
	}
	if unready := nodes.ReadyChanged(n); unready.After(since) {
		since = unready
	}
	unneeded := now.Sub(since)
	if unneeded > unmountTimeout {
		return forcedByTime, 0
	}
	return "", unmountTimeout - unneeded + time.Millisecond
}

// forceRuleNodeGone is forceRule for a node that is gone. Its machine may still run. The kubelet ends the containers
// only when it sees that the pods are deleted, so the rule waits for their grace periods and a minute more. The brake
// makes it wait longer.
func forceRuleNodeGone(
	now time.Time, s nodeSnapshot, v nodeVolume, d *nodeDecision,
) (reason string, wait time.Duration) {
	since := d.Gone
	if unneeded := d.UnneededSince[v.id()]; unneeded.After(since) {
		since = unneeded
	}
	grace := unmountTimeout // nobody knows what has used it
	if ends, known := d.Grace[v.id()]; known {
		grace = goneGrace + ends
	}
	if s.Held != "" {
		grace = max(grace, goneProof)
	}
	if wait = grace - now.Sub(since); wait > 0 {
		return "", wait
	}
	return forcedByEnd, 0
}

// uses reports whether a node says that it has a volume in use.
func uses(n *corev1.Node, v nodeVolume) bool {
	return slices.ContainsFunc(n.Status.VolumesInUse,
		func(name corev1.UniqueVolumeName) bool { return v.hasName(string(name), n.Name) })
}

// lists reports whether the status of a node allows its kubelet to mount a volume.
func lists(n *corev1.Node, v nodeVolume) bool {
	return slices.ContainsFunc(n.Status.VolumesAttached,
		func(a corev1.AttachedVolume) bool { return v.hasName(string(a.Name), n.Name) })
}

// hasName reports whether a volume has a name in the status of a node. The volume whose name nobody knows any more is
// found by the name of its VolumeAttachment.
func (v nodeVolume) hasName(name, node string) bool {
	return name == v.Name || v.Name == "" && v.Attachment != nil &&
		volumes.AttachmentOf(name, node) == v.Attachment.Name
}

// planVolumesAttached plans the status of a node: it lists what the kubelet may mount, in an order that does not change
// (AD-40, AD-76). What was written a moment ago waits, so that what happens together is one write (AD-73).
func planVolumesAttached(now time.Time, s nodeSnapshot, keep map[string]bool, d *nodeDecision, p *plan.Plan) {
	var is []corev1.AttachedVolume
	var exclusive []string
	known := map[string]bool{}
	removed, added := 0, 0
	for _, a := range s.Node.Status.VolumesAttached {
		name := string(a.Name)
		if known[name] || !keep[name] && decidable(name) {
			removed++
			continue
		}
		known[name] = true
		is = append(is, a)
	}
	for _, v := range s.Volumes {
		if v.Name != "" && keep[v.Name] && !known[v.Name] {
			known[v.Name] = true
			added++
			is = append(is, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(v.Name)})
			if v.StatusOnly && v.Exclusive {
				exclusive = append(exclusive, v.Name)
			}
		}
	}
	if d.Unwritten = removed + added; d.Unwritten == 0 {
		return
	}
	if wait := s.Memory.pause(now, d.Unwritten, removed > 0); wait > 0 {
		p.Requeue = plan.Sooner(p.Requeue, wait)
		return
	}
	after := *s.Node // its parts belong to the cache: they are replaced, not changed
	after.Status.VolumesAttached, d.Reserves = is, exclusive
	p.Steps = append(p.Steps, plan.Change{Old: s.Node, New: &after, Subresource: plan.Status, Unowned: true,
		Why: fmt.Sprintf("%d volumes are attached, %d are not any more", added, removed)})
}

// pause returns how much longer the status of a node is not written, if so many volumes are to be written. Nodes that
// wait for a volume to be taken from this one wait no longer than writePause.
func (m nodeMemory) pause(now time.Time, unwritten int, taken bool) time.Duration {
	since := now.Sub(m.Written)
	wait := writePause - since
	if taken || m.Burst < writesAtOnce {
		return wait
	}
	quiet := writePause
	if unwritten == m.Unwritten {
		quiet -= now.Sub(m.UnwrittenSince)
	}
	return max(wait, min(burstPause-since, quiet))
}

// written notes that the status was written now.
func (m *nodeMemory) written(now time.Time) {
	if now.Sub(m.Written) > burstPause {
		m.Burst = 0
	}
	m.Burst++
	m.Written, m.Unwritten = now, 0
}

// decidable reports whether this controller decides about a volume, by its name in the status of a node.
func decidable(name string) bool {
	return slices.ContainsFunc([]string{volumes.CSIPrefix, volumes.ISCSIPrefix, volumes.FCPrefix},
		func(kind string) bool { return strings.HasPrefix(name, kind) })
}

// rememberNode keeps what was seen and decided, and what of it was carried out.
func rememberNode(now time.Time, s nodeSnapshot, d nodeDecision, did plan.Outcome) *nodeMemory {
	m := nodeMemory{
		UID: s.Memory.UID, Gone: d.Gone, UnneededSince: d.UnneededSince, Grace: d.Grace,
		Written: s.Memory.Written, Failed: s.Memory.Failed, Asked: map[string]asked{},
		HadUnboundClaim: s.PodWithUnboundClaim != "",
		Burst:           s.Memory.Burst, Unwritten: d.Unwritten, UnwrittenSince: s.Memory.UnwrittenSince,
	}
	if d.Unwritten != s.Memory.Unwritten {
		m.UnwrittenSince = now
	}
	there := map[string]bool{}
	for _, v := range s.Volumes {
		there[v.id()] = true
	}
	for name, before := range s.Memory.Asked {
		if there[name] {
			m.Asked[name] = before
		}
	}
	for _, r := range did.Results {
		switch {
		case r.Verb == plan.Deleted:
			a := r.Object.(*storagev1.VolumeAttachment)
			m.Asked[a.Name] = asked{now, "kubernetes.io/csi:" + a.Spec.Attacher}
		case r.Verb == plan.Changed:
			m.written(now)
			if m.Failed = (time.Time{}); r.Err != nil {
				m.Failed = now
			}
		}
	}
	return &m
}
