package oracle

import (
	"maps"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// OneDaemonPodPerNode is S20: the manager creates a pod of a DaemonSet only for a node that has none (DS-30, DS-32). With a surge it may be
// one beside another that is there, and those that are being deleted do not count (DS-33). A pod that the environment gave to the DaemonSet
// a moment ago excuses it.
func OneDaemonPodPerNode() Oracle {
	return Oracle{"S20", "a DaemonSet creates no pod that a node has", func(j *judge) hooks {
		t := newDaemonTimes(j.world)
		return hooks{after: func(r *revision) {
			t.note(r)
			p := j.pods[r.key]
			if r.kind != Pod || !r.manager || r.old != nil || p == nil {
				return
			}
			d := j.daemonSet(p)
			if d == nil {
				return
			}
			since := j.lag(r, Pod, DaemonSet)
			surges := t.surges(d, since)
			node, others, excused := meantFor(p.Pod), 0, false
			for uid, other := range j.podsOf[d.UID] {
				switch {
				case uid == p.UID || meantFor(other.Pod) != node || finished(other.Pod) || surges && other.DeletionTimestamp != nil:
				case !t.given[uid].IsZero() && !t.given[uid].Before(since):
					excused = true
				default:
					others++
				}
			}
			if j.judges(excused); others > 1 || others > 0 && !surges {
				j.report(r, []string{DaemonSet + "/" + keyOf(d)}, "created for node %s, which has %d pods of %s", node, others, d.Name)
			}
		}}
	}}
}

// DaemonSetsStayAvailable is S21: when the manager deletes an available pod of a DaemonSet that is the only one on a node that should run
// it, at least desiredNumberScheduled - maxUnavailable nodes still have an available pod, with a surge all of them (DS-60..63). What the
// environment took within the lag still counts, what became available within it does not, and of several generations that the manager may
// act upon the one that allows most.
func DaemonSetsStayAvailable() Oracle {
	return Oracle{"S21", "a rolling update of a DaemonSet leaves enough pods available", func(j *judge) hooks {
		t := newDaemonTimes(j.world)
		return hooks{
			before: func(r *revision) {
				p := j.pods[r.key]
				if r.kind == Pod && r.manager && r.deletes() && p != nil && p.UID == r.uid {
					if d := j.daemonSet(p); d != nil {
						j.deletedByRollout(r, p, d, t)
					}
				}
			},
			after: t.note,
		}
	}}
}

func (j *judge) deletedByRollout(r *revision, p *pod, d *appsv1.DaemonSet, t *daemonTimes) {
	since := j.lag(r, Pod, Node, DaemonSet)
	name := meantFor(p.Pod)
	n := j.nodes[name]
	needless := n == nil || !active(p.Pod) || !runsOn(d, n) || !available(p.Pod, d.Spec.MinReadySeconds, j.now) ||
		len(j.availableOn(d, name)) > 1
	changed := func(node string) bool { // so lately that the manager may not know: an available pod was lost, or the node is another
		return !t.lost[d.UID][node].IsZero() && !t.lost[d.UID][node].Before(since) ||
			!t.nodes[node].IsZero() && !t.nodes[node].Before(since)
	}
	// the manager may not know that it is available
	fresh := !p.ready.Add(time.Duration(d.Spec.MinReadySeconds) * time.Second).Before(since)
	excused := needless || fresh || d.DeletionTimestamp != nil || j.others(p) || t.changed(d.UID, since) || changed(name)
	if j.judges(excused); excused {
		return
	}
	desired, left := 0, 0
	for _, n := range j.nodes {
		if !runsOn(d, n) {
			continue
		}
		desired++
		if n.Name != name && (changed(n.Name) || len(j.availableOn(d, n.Name)) > 0) {
			left++
		}
	}
	if most := unavailableOf(d, desired); left < desired-most {
		related := []string{DaemonSet + "/" + keyOf(d), Node + "//" + name}
		for _, p := range j.podsOf[d.UID] {
			if meantFor(p.Pod) == name {
				related = append(related, Pod+"/"+keyOf(p.Pod))
			}
		}
		j.report(r, related, "%d of %d nodes are left with an available pod of %s, and %d may lack one", left, desired, d.Name, most)
	}
}

// daemonTimes is when the environment changed something that concerns DaemonSets.
type daemonTimes struct {
	*world
	specs map[types.UID]daemonSpec
	nodes map[string]time.Time               // labels or taints, or the node itself
	lost  map[types.UID]map[string]time.Time // by DaemonSet and node: an available pod was lost
	given map[types.UID]time.Time            // a pod got its controller
}

// daemonSpec is the latest change of a DaemonSet.
type daemonSpec struct {
	generation int64
	when       time.Time
	surged     bool // before it, or before one that the status has not observed yet
	moved      bool // it changed more than what the pods run, likewise
}

func newDaemonTimes(w *world) *daemonTimes {
	return &daemonTimes{w, map[types.UID]daemonSpec{}, map[string]time.Time{}, map[types.UID]map[string]time.Time{},
		map[types.UID]time.Time{}}
}

// note takes note of a revision. The world is as it is after it.
func (t *daemonTimes) note(r *revision) {
	switch o := r.Object.(type) {
	case *corev1.Node:
		old, ok := r.old.(*corev1.Node)
		if r.Type == Deleted || !ok || !maps.Equal(old.Labels, o.Labels) || !equality.Semantic.DeepEqual(old.Spec.Taints, o.Spec.Taints) {
			t.nodes[o.Name] = t.now
		}
	case *appsv1.DaemonSet:
		if before := t.specs[o.UID]; before.generation != o.Generation {
			old, ok := r.old.(*appsv1.DaemonSet)
			open := ok && old.Status.ObservedGeneration < before.generation
			t.specs[o.UID] = daemonSpec{o.Generation, t.now, ok && (surges(old) || before.surged && open), !ok || moved(old, o) ||
				before.moved && open}
		}
	case *corev1.Pod:
		t.notePod(r, o)
	}
}

func (t *daemonTimes) notePod(r *revision, o *corev1.Pod) {
	if r.Type == Deleted {
		delete(t.given, o.UID)
	}
	old, ok := r.old.(*corev1.Pod)
	if !ok || r.manager && !adopts(r) {
		return
	}
	if !sameController(old, o) || finished(old) {
		t.given[o.UID] = t.now
	}
	ref, owned := controller(old)
	d, _ := t.daemonSetOf(ref.UID)
	if owned && d != nil && active(old) && available(old, d.Spec.MinReadySeconds, t.now) &&
		(r.Type == Deleted || !active(o) || !ready(o) || !sameController(old, o)) {
		if t.lost[d.UID] == nil {
			t.lost[d.UID] = map[string]time.Time{}
		}
		t.lost[d.UID][meantFor(old)] = t.now
	}
}

// changed reports whether the latest change of the spec was after a time, is not observed yet, and may alter what the manager may do.
func (t *daemonTimes) changed(uid types.UID, since time.Time) bool {
	d, _ := t.daemonSetOf(uid)
	spec := t.specs[uid]
	return d == nil || spec.moved && !spec.when.Before(since) && d.Status.ObservedGeneration < spec.generation
}

// moved reports whether two specs differ in more than containers.
func moved(a, b *appsv1.DaemonSet) bool {
	x, y := a.Spec.DeepCopy(), b.Spec.DeepCopy()
	x.Template.Spec.Containers, y.Template.Spec.Containers = nil, nil
	return !equality.Semantic.DeepEqual(x, y)
}

// surges reports whether a DaemonSet has a surge, or had one that the manager may still go by.
func (t *daemonTimes) surges(d *appsv1.DaemonSet, since time.Time) bool {
	spec := t.specs[d.UID]
	return surges(d) || spec.surged && !spec.when.Before(since)
}

// daemonSet returns the DaemonSet that controls a pod, nil if none does.
func (w *world) daemonSet(p *pod) *appsv1.DaemonSet {
	d, _ := w.daemonSetOf(p.controller)
	return d
}

func (w *world) daemonSetOf(uid types.UID) (*appsv1.DaemonSet, bool) {
	o := w.owners[identity{DaemonSet, uid}]
	if o == nil || o.gone != nil {
		return nil, false
	}
	d, ok := o.Object.(*appsv1.DaemonSet)
	return d, ok
}

// availableOn returns the available pods of a DaemonSet on a node that are not being deleted.
func (w *world) availableOn(d *appsv1.DaemonSet, node string) (on []*pod) {
	for _, p := range w.podsOf[d.UID] {
		if active(p.Pod) && meantFor(p.Pod) == node && available(p.Pod, d.Spec.MinReadySeconds, w.now) {
			on = append(on, p)
		}
	}
	return on
}

// runsOn reports whether a node should run a pod of a DaemonSet (DS-20, DS-27).
func runsOn(d *appsv1.DaemonSet, n *corev1.Node) bool {
	spec := d.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(n); err != nil || !matches {
		return false
	}
	always := map[corev1.Taint]bool{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}:            true,
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}:         true,
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}:       true,
		{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}:     true,
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule}:        true,
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}:      true,
		{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}: spec.HostNetwork,
	}
	counts := func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !always[corev1.Taint{Key: t.Key, Effect: t.Effect}]
	}
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, spec.Tolerations, counts, false)
	return !untolerated
}

// meantFor is the node that a pod is on, or that its affinity names (DS-26).
func meantFor(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return p.Spec.NodeName
	}
	required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 || len(required.NodeSelectorTerms[0].MatchFields) != 1 {
		return ""
	}
	return required.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

func surges(d *appsv1.DaemonSet) bool {
	rolling := d.Spec.UpdateStrategy.RollingUpdate
	return d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType && rolling != nil && atMost(rolling.MaxSurge, 100, 0) > 0
}

// unavailableOf is how many of so many nodes may lack an available pod (DS-60). Without a rolling update none may be made to.
func unavailableOf(d *appsv1.DaemonSet, desired int) int {
	rolling := d.Spec.UpdateStrategy.RollingUpdate
	switch {
	case d.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType, surges(d):
		return 0
	case rolling == nil:
		return 1
	}
	return max(1, atMost(rolling.MaxUnavailable, desired, 1))
}

func atMost(value *intstr.IntOrString, total, unset int) int {
	if value == nil {
		return unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		return 0
	}
	return n
}
