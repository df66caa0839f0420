package podgc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// The rules. Each is a key of its own, so that none waits for another. Their names are the reasons in metrics (PGC-23).
const (
	terminated   = "terminated"
	outOfService = "out-of-service"
	orphaned     = "orphaned"
	unscheduled  = "unscheduled"
)

const (
	// cycle is the time between the end of one reconcile and the next (PGC-1).
	cycle = 20 * time.Second
	// batch is how many pods that have not finished one reconcile removes at most; the rest follows at once, in the
	// next.
	batch = 1000
	// soon is "at once", but for a server that refuses all that a stale cache proposes.
	soon = time.Second
	// unsure is when orphans that are due are reconciled again after the cache of nodes was found to lag.
	unsure = 5 * time.Second
)

// planPods decides which pods a rule removes.
func planPods(now time.Time, s snapshot) plan.Plan {
	switch s.Rule {
	case terminated:
		return planTerminated(now, s)
	case outOfService:
		victims := slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
			return p.DeletionTimestamp == nil || s.Nodes[p.Spec.NodeName] == nil ||
				!isOutOfService(s.Nodes[p.Spec.NodeName])
		})
		slices.SortFunc(victims, byAge)
		p := removeAll(now, s, victims)
		p.Proof = nodesOf(victims)
		return p
	case orphaned:
		return planOrphans(now, s)
	case unscheduled:
		return removeAll(now, s, slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
			return p.DeletionTimestamp == nil || p.Spec.NodeName != ""
		}))
	}
	return plan.Plan{Why: "there is no rule of this name"}
}

// snapshot is what one reconcile of a rule has observed. Observe fills it from the caches, prove adds what
// was read live, and planPods reads it. The objects belong to shared caches.
type snapshot struct {
	// Rule is the key: which of the four rules this is about.
	Rule   string
	Policy policy
	// Pods are all that the rule may have to do with: for terminated those that have finished, for
	// out-of-service and unscheduled those that are being deleted, for orphaned those on the nodes that are
	// gone.
	Pods  []*corev1.Pod
	Nodes map[string]*corev1.Node // of the pods; out-of-service only
	// Kept counts the finished pods when none of them matters, and Pods is empty; terminated only.
	Kept int

	// The rest is for orphaned only.
	Compare    bool            // the cache of nodes is to be compared with the server first
	Batch      []nodePods      // of nodes that are due, as many as one reconcile takes on
	Idle       []string        // nodes that are due and whose pods need nothing
	Ask        []string        // nodes of the batch that are to be read live
	Gone       map[string]bool // nodes that were due and then not found by a live read (PGC-10)
	Unread     int             // nodes that are due and not in the batch: they follow at once
	Unreadable []string        // nodes that could not be read, with the error; their pods stay
	Uncompared bool            // the role does not allow to compare the cache of nodes with the server
	// NodeCounts is what there is to say of the nodes, by the memory of the rule.
	NodeCounts nodeCounts
	// Held says whether the orphans are held back, and why.
	Held       held
	HeldBefore holdKind // as the reconcile before found it
}

// nodePods are the pods of a node.
type nodePods struct {
	Node string
	Pods []*corev1.Pod
}

// policy is what flags say.
type policy struct {
	Threshold    int           // finished pods that may stay; zero and less: all (PGC-24)
	PerNamespace int           // the same for each namespace; zero and less: all
	MaxAge       time.Duration // how long a finished pod may stay; zero and less: for ever
}

// idle reports whether that many finished pods can stay, whatever they are.
func (p policy) idle(finished int) bool {
	return (p.Threshold <= 0 || finished <= p.Threshold) && p.PerNamespace <= 0 && p.MaxAge <= 0
}

// planTerminated removes finished pods: those that the opt-in rules name, and then the first of the rest until as many
// are left as may stay (PGC-4).
func planTerminated(now time.Time, s snapshot) plan.Plan {
	if s.Policy.idle(len(s.Pods) + s.Kept) {
		return plan.Plan{Requeue: cycle, Why: fmt.Sprintf("%d terminated pods, all may stay", len(s.Pods)+s.Kept)}
	}
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, byAge)
	inNamespace := map[string]int{}
	for _, p := range pods {
		if !workloads.Tracked(p) {
			inNamespace[p.Namespace]++
		}
	}
	var victims, rest []*corev1.Pod
	for _, p := range pods {
		tooMany := s.Policy.PerNamespace > 0 && inNamespace[p.Namespace] > s.Policy.PerNamespace
		tooOld := s.Policy.MaxAge > 0 && now.Sub(ended(p)) > s.Policy.MaxAge
		if (tooMany || tooOld) && !workloads.Tracked(p) {
			inNamespace[p.Namespace]--
			victims = append(victims, p)
		} else {
			rest = append(rest, p)
		}
	}
	if excess := len(rest) - s.Policy.Threshold; s.Policy.Threshold > 0 && excess > 0 {
		victims = append(victims, rest[:excess]...)
	}
	p := removeAll(now, s, victims)
	p.Why = fmt.Sprintf("%s; %d terminated pods", p.Why, len(pods))
	return p
}

// planOrphans removes the pods whose nodes are gone, unless the brake holds them (PGC-8..11).
func planOrphans(now time.Time, s snapshot) plan.Plan {
	var p plan.Plan
	switch s.Held.Kind {
	case tooManyVanished:
		p = plan.Plan{Requeue: cycle, Why: "waits: " + s.Held.Why}
	case notProved:
		p = plan.Plan{Requeue: unsure, Why: "waits: " + s.Held.Why}
	case free:
		p = removeAll(now, s, slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
			return p.Spec.NodeName == "" || !s.Gone[p.Spec.NodeName]
		}))
		p.Proof = s.proof()
		if s.NodeCounts.Next > 0 {
			p.Requeue = min(p.Requeue, s.NodeCounts.Next)
		}
		if s.Unread > 0 {
			p.Requeue = soon
		}
	}
	p.Hold = s.hold()
	if n := s.NodeCounts.Missing; n > 0 {
		p.Why = fmt.Sprintf("%s; nodes that pods name and that are not known: %d, of these in their grace period: %d",
			p.Why, n,
			n-len(s.NodeCounts.Due))
	}
	return p
}

// orphans is what the brake holds, in words.
const orphans = "pods whose nodes are gone"

// hold says whether orphans are held. That so many nodes vanished is history after a while, which is no proof of
// anything.
func (s snapshot) hold() plan.Hold {
	switch {
	case s.Held.Kind != free:
		return plan.Hold{What: orphans, Why: s.Held.Why}
	case s.NodeCounts.Missing == 0:
		return plan.Hold{Ended: plan.NothingLeft}
	case s.HeldBefore == tooManyVanished && s.NodeCounts.Expired > 0:
		return plan.Hold{Ended: plan.ByTime}
	}
	return plan.Hold{}
}

// proof names what is read live before orphans are removed: all nodes, to compare the cache with them, and then those
// that are due.
func (s snapshot) proof() (refs []plan.Ref) {
	if s.Compare {
		return []plan.Ref{allNodes()}
	}
	for _, name := range s.Ask {
		refs = append(refs, metadataOf(name))
	}
	return refs
}

// nodesOf names the nodes of the pods that are still to be removed: force asks for proof that they are out of service.
func nodesOf(victims []*corev1.Pod) (refs []plan.Ref) {
	asked := map[string]bool{}
	for _, p := range victims {
		if name := p.Spec.NodeName; !leaving(p) && !asked[name] {
			asked[name] = true
			refs = append(refs, plan.Ref{Kind: nodeKind(), Name: name})
		}
	}
	return refs
}

// nodeKind is that of nodes.
func nodeKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Node") }

// allNodes names the metadata of all nodes.
func allNodes() plan.Ref { return plan.Ref{Kind: nodeKind(), All: true, Metadata: true} }

// metadataOf names the metadata of one node.
func metadataOf(node string) plan.Ref { return plan.Ref{Kind: nodeKind(), Name: node, Metadata: true} }

// removeAll removes the victims. Those that have to be failed before are taken a batch at a time, as each of them is
// copied; the others cost nothing, and are all tried, so that some that cannot be deleted don't keep the rest.
func removeAll(now time.Time, s snapshot, victims []*corev1.Pod) plan.Plan {
	p := plan.Plan{Requeue: cycle}
	var ended []*corev1.Pod
	var each plan.Each
	for _, v := range victims {
		switch {
		case leaving(v):
		case podutil.Finished(v):
			ended = append(ended, v)
		case len(each.Sequences) < batch:
			each.Sequences = append(each.Sequences, []plan.Step{fail(now, s.Rule, v), remove(s.Rule, v)})
		default:
			p.Requeue = soon
		}
	}
	writes := len(ended) + len(each.Sequences)
	if len(ended) > 0 {
		each.Sequences = append(each.Sequences, []plan.Step{remove(s.Rule, ended...)})
	}
	if len(each.Sequences) > 0 {
		p.Steps = []plan.Step{each}
	}
	p.Why = fmt.Sprintf("delete %d of %d pods: %s", writes, len(victims), s.Rule)
	if len(victims) == 0 {
		p.Why = "no pods to delete: " + s.Rule
	}
	return p
}

// fail says that the pod has failed, before it is deleted (PGC-13): whoever sees it go knows that it did not succeed.
func fail(now time.Time, rule string, p *corev1.Pod) plan.Step {
	failed := p.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	failed.Status.ObservedGeneration = p.Generation
	if rule == orphaned {
		podutil.Disrupt(failed, now, "DeletionByPodGC", "PodGC: node no longer exists") // PGC-15
	}
	return plan.Change{Old: p, New: failed, Subresource: plan.Status, Why: "fail: " + rule}
}

// remove deletes by force (PGC-18). The version is a precondition, so that a pod that has changed since, let alone an
// object of the same name that has taken its place, is not hit: the original deletes by name alone.
func remove(rule string, pods ...*corev1.Pod) plan.Delete {
	return plan.Delete{Objects: plan.Objects(pods), Grace: new(int64), CheckVersion: true, Why: "remove: " + rule}
}

// leaving reports whether the pod has been deleted by force already, and only finalizers hold it: to do it again
// would change nothing. A pod without any is deleted again: the server marks and removes in two writes, and may have
// been cut off in between.
func leaving(p *corev1.Pod) bool {
	grace := p.DeletionGracePeriodSeconds
	return p.DeletionTimestamp != nil && grace != nil && *grace == 0 && podutil.Finished(p) && len(p.Finalizers) > 0
}

// ended returns when a finished pod has ended, as far as its conditions show: a pod has no such time, and its age says
// nothing, because it may have worked for all of it.
func ended(p *corev1.Pod) time.Time {
	end := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.LastTransitionTime.After(end) {
			end = c.LastTransitionTime.Time
		}
	}
	return end
}

// byAge puts evicted pods first, then the oldest (PGC-5).
func byAge(a, b *corev1.Pod) int {
	if ea, eb := evicted(a), evicted(b); ea != eb {
		if ea {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Namespace, b.Namespace))
}

// evicted reports whether a kubelet has evicted the pod.
func evicted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted"
}

// isOutOfService reports whether somebody has declared that the node is down for good, and it does not object (PGC-7).
func isOutOfService(n *corev1.Node) bool {
	return !nodes.Ready(n) && nodes.OutOfService(n)
}
