package garbagecollector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// attemptLasts is how long a deletion may take to show in the watch, before the object is read live: the deletion may have been
// refused because of a version that the watch does not show.
const attemptLasts = 5 * time.Second

// attempt is a deletion that was tried.
type attempt struct {
	version string
	at      time.Time
}

// decision says what is to be done about one object.
type decision struct {
	plan.Plan
	enqueue []*node // to be decided about as well
	read    bool    // read the object live first: the watch does not show what became of its deletion
	deletes bool    // the plan deletes the object
	ask     bool    // ask the server for dependents of kinds that have not been listed
}

// referenceState is what is known of the owner that a reference states (GC-33).
type referenceState int

const (
	ownerExists       referenceState = iota // the owner exists
	ownerWaits                              // the owner exists, and waits for its dependents to be deleted
	ownerAbsent                             // there is no such owner
	unknown                                 // a live read will tell
	ownerUnresolvable                       // nobody can tell (GC-34, GC-35)
)

func (g *graph) referenceState(n *node, ref metav1.OwnerReference) referenceState {
	switch found := g.ownerOf(n, ref); {
	case found.waiting():
		return ownerWaits
	case found != nil:
		return ownerExists
	}
	s := g.owners[ref.UID].stated[g.statedBy(n, ref)]
	switch {
	case s == nil, s.ownerState == unverified:
		return unknown
	case s.ownerState == present:
		return ownerExists
	case s.ownerState == unresolvable:
		return ownerUnresolvable
	}
	return ownerAbsent
}

// decide decides about one object of the delete queue (GC-28 to GC-46).
func (g *graph) decide(now time.Time, n *node) decision {
	switch {
	case n.waiting() && !n.orphaning():
		return g.decideForeground(n)
	case n.deleting:
		return because("is being deleted")
	case len(n.owners) == 0:
		return decision{}
	}
	by := map[referenceState][]metav1.OwnerReference{}
	for _, ref := range n.owners {
		s := g.referenceState(n, ref)
		by[s] = append(by[s], ref)
	}
	switch {
	case len(by[ownerUnresolvable]) > 0:
		return because("stays: the owner %s cannot be looked up, because its kind is unknown, or has namespaces while the object has none", describe(by[ownerUnresolvable]))
	case len(by[unknown]) > 0:
		return because("waits until it is known whether the owner %s exists", describe(by[unknown]))
	case len(by[ownerAbsent])+len(by[ownerWaits]) == 0:
		return decision{}
	case len(by[ownerExists]) > 0:
		return keep(n, by[ownerExists])
	case len(by[ownerWaits]) > 0 && !g.complete && !g.cleared.Has(n):
		return unlisted()
	case n.attempt != nil && n.attempt.version == n.version:
		return attempted(now, n)
	case len(by[ownerWaits]) > 0 && g.hasDependents(n):
		return g.deleteInForeground(n)
	}
	return remove(n, propagation(n), fmt.Sprintf("deletes it: no owner is left, neither %s", describe(n.owners)))
}

// keep removes the references that an object with an owner does not need (GC-36, GC-49). References are removed by uid, so one to the
// uid of an owner stays, even if the rest of it is wrong.
func keep(n *node, existing []metav1.OwnerReference) decision {
	var kept []metav1.OwnerReference
	exists := uidsOf(existing, nil)
	for _, ref := range n.owners {
		if exists[ref.UID] {
			kept = append(kept, ref)
		}
	}
	if len(kept) == len(n.owners) {
		return decision{}
	}
	why := "an owner exists; removes the references to those that do not, or are being deleted"
	return decision{Plan: plan.Plan{Steps: []plan.Step{withOwners(n, kept, why)}, Why: why}}
}

// attempted waits for the watch to show what became of a deletion, in which a stale version may have been named (GC-40).
func attempted(now time.Time, n *node) decision {
	d := because("waits until the watch shows what became of its deletion")
	if d.Requeue = attemptLasts - now.Sub(n.attempt.at); d.Requeue <= 0 {
		d.Requeue, d.read = 0, true
	}
	return d
}

// deleteInForeground deletes an object whose owner waits for it, and that has dependents itself. If one of these waits, too, there
// may be a cycle: then the object must not block its owners (GC-37).
func (g *graph) deleteInForeground(n *node) decision {
	cycle := false
	for d := range g.dependentsOf(n) {
		cycle = cycle || d.waiting()
	}
	if cycle && slices.ContainsFunc(n.owners, blocks) {
		var unblocked []metav1.OwnerReference
		for _, ref := range n.owners {
			if ref.BlockOwnerDeletion != nil {
				ref.BlockOwnerDeletion = new(bool)
			}
			unblocked = append(unblocked, ref)
		}
		why := "its dependents and its owners may wait for one another; blocks its owners no longer"
		return decision{Plan: plan.Plan{Steps: []plan.Step{withOwners(n, unblocked, why)}, Why: why}}
	}
	return remove(n, metav1.DeletePropagationForeground, fmt.Sprintf("deletes it with its dependents: the owner %s waits for that", describe(n.owners)))
}

func (g *graph) hasDependents(n *node) bool {
	for range g.dependentsOf(n) {
		return true
	}
	return false
}

// propagation is the policy that the finalizers of an object ask for (GC-38).
func propagation(n *node) metav1.DeletionPropagation {
	switch {
	case slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// remove deletes an object, if it is still as it was observed (GC-39).
func remove(n *node, policy metav1.DeletionPropagation, why string) decision {
	step := plan.Delete{
		Objects: []plan.Object{n.object()}, CheckVersion: true, Propagation: policy, Unowned: true, Why: why,
	}
	return decision{Plan: plan.Plan{Steps: []plan.Step{step}, Why: why, Requeue: attemptLasts}, deletes: true}
}

// decideForeground releases an object that waits for its dependents, if none is left that blocks it (GC-44, GC-45). While there are many, it
// looks at some.
func (g *graph) decideForeground(n *node) decision {
	blocking, all := g.someBlocking(n)
	if len(blocking) == 0 {
		if !g.knowsDependents(n) {
			return unlisted()
		}
		return released(n, metav1.FinalizerDeleteDependents, "none of its dependents blocks its deletion any more")
	}
	d := because("waits for %d dependents that block its deletion: %s", all, some(blocking))
	for _, b := range blocking {
		if !b.deleting && (b.attempt == nil || b.attempt.version != b.version) {
			d.enqueue = append(d.enqueue, b)
		}
	}
	return d
}

// mostBlocking is how many dependents are looked at that block an object. Each of them is queued when the object begins to wait, and again
// when its own deletion fails.
const mostBlocking = 100

// someBlocking returns some of the dependents that block the deletion of an object, none if none does, and how many there are about.
func (g *graph) someBlocking(n *node) (blocking []*node, all int) {
	o := g.owners[n.uid]
	if o == nil {
		return nil, 0
	}
	if o.blocking == nil {
		o.blocking = map[*node]struct{}{}
		for d := range o.dependents {
			if d.blocksUID(n.uid) {
				o.blocking[d] = struct{}{}
			}
		}
	}
	all = len(o.blocking)
	for d := range o.blocking {
		switch twin := g.twinOf(d, n); {
		case d == n, twin != nil && !twin.waiting(), !d.blocksOwner(n):
			all--
			continue
		}
		if blocking = append(blocking, d); len(blocking) == mostBlocking {
			break
		}
	}
	return blocking, all
}

// decideOrphan takes the references to an object off its dependents, and then releases it (GC-47, GC-48).
func (g *graph) decideOrphan(n *node) decision {
	if !n.orphaning() {
		return decision{}
	}
	if !g.knowsDependents(n) {
		return unlisted()
	}
	d := released(n, metav1.FinalizerOrphanDependents, "its dependents are orphaned")
	var drops plan.Each
	for dependent := range g.dependentsOf(n) {
		if dependent == n || g.twinOf(dependent, n) != nil {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(dependent.owners), func(ref metav1.OwnerReference) bool { return ref.UID == n.uid })
		drops.Sequences = append(drops.Sequences, []plan.Step{withOwners(dependent, left, "its owner is deleted without it")})
	}
	if len(drops.Sequences) > 0 {
		d.Steps = append([]plan.Step{drops}, d.Steps...)
	}
	return d
}

// twinOf returns another owner of the dependent that has the uid of n, nil if there is none. As references are removed by uid, the one to
// n cannot be removed then.
func (g *graph) twinOf(dependent, n *node) *node {
	for ref := range dependent.refsTo(n.uid) {
		if owner := g.ownerOf(dependent, ref); owner != nil && owner != n {
			return owner
		}
	}
	return nil
}

// released takes a finalizer off an object (GC-50).
func released(n *node, finalizer, why string) decision {
	before, after := n.object(), n.object()
	after.Finalizers = slices.DeleteFunc(slices.Clone(n.finalizers), func(f string) bool { return f == finalizer })
	return decision{Plan: plan.Plan{Steps: []plan.Step{plan.Change{Old: before, New: after, Unowned: true, Why: why}}, Why: why}}
}

func withOwners(n *node, owners []metav1.OwnerReference, why string) plan.Step {
	before, after := n.object(), n.object()
	after.OwnerReferences = owners
	return plan.Change{Old: before, New: after, Unowned: true, Why: why}
}

// unlisted waits until all dependents are known (GC-15).
func unlisted() decision {
	d := because("waits until the objects of all kinds have been listed, as some may depend on it")
	d.ask = true
	return d
}

func because(why string, values ...any) decision {
	return decision{Plan: plan.Plan{Why: fmt.Sprintf(why, values...)}}
}

// mostDescribed is how many owners a sentence names.
const mostDescribed = 10

func describe(refs []metav1.OwnerReference) string {
	var all []string
	for _, ref := range refs[:min(mostDescribed, len(refs))] {
		all = append(all, fmt.Sprintf("%s %s (%s, uid %s)", ref.Kind, ref.Name, ref.APIVersion, ref.UID))
	}
	if more := len(refs) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d others", more))
	}
	return strings.Join(all, " nor ")
}

// some names the first of the nodes.
func some(all []*node) string {
	slices.SortFunc(all, func(a, b *node) int {
		return cmp.Or(strings.Compare(a.kind.Kind, b.kind.Kind), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, n := range all[:min(3, len(all))] {
		names = append(names, n.kind.Kind+" "+n.name)
	}
	if len(all) > len(names) {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
