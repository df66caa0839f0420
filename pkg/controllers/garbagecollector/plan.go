package garbagecollector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// attemptLasts is how long a deletion may take to show in the watch, before the object is read live: the deletion may
// have been refused because of a version that the watch does not show.
const attemptLasts = 5 * time.Second

// attempt is a deletion that was tried.
type attempt struct {
	version string
	at      time.Time
}

// decision says what is to be done about one object.
type decision struct {
	plan.Plan
	enqueue []*node  // to be decided about as well
	read    bool     // asks for a live read of the object: the watch does not show what became of it
	deletes bool     // the plan deletes the object
	attempt *attempt // the deletion, if the plan deletes the object
	due     bool     // something is written unless proof is missing that owners are gone
	held    bool     // that is missing
	ask     bool     // ask the server for dependents of kinds that have not been listed
}

// planObject decides about one object of the delete queue. What it would write may have to wait for proof.
func planObject(now time.Time, s snapshot) (decision, plan.Plan) {
	d := decide(now, s)
	due := !d.Empty() && !s.deleting
	if due && s.held != "" {
		d = because("waits: %s", s.held)
		d.held, d.Requeue = true, s.again
	}
	if d.due = due; d.deletes {
		d.attempt = &attempt{s.object.ResourceVersion, now}
	}
	return d, d.Plan
}

// planOrphan decides about one object of the orphan queue.
func planOrphan(_ time.Time, s snapshot) (decision, plan.Plan) {
	d := decideOrphan(s)
	return d, d.Plan
}

// decide decides about one object of the delete queue (GC-28 to GC-46).
func decide(now time.Time, s snapshot) decision {
	switch {
	case s.absent:
		return readFirst(s)
	case s.waiting && !s.orphaning:
		return decideForeground(s)
	case s.deleting:
		return because("is being deleted")
	case len(s.object.OwnerReferences) == 0:
		return decision{}
	}
	switch by := s.owners; {
	case len(by[ownerUnresolvable]) > 0:
		return because("stays: the owner %s cannot be looked up, because its kind is unknown, "+
			"or has namespaces while the object has none", describe(by[ownerUnresolvable]))
	case len(by[unknown]) > 0:
		return because("waits until it is known whether the owner %s exists", describe(by[unknown]))
	case len(by[ownerAbsent])+len(by[ownerWaits]) == 0:
		return decision{}
	case len(by[ownerExists]) > 0:
		return keep(s.object, by[ownerExists])
	case len(by[ownerWaits]) > 0 && !s.listed:
		return unlisted()
	case s.attempt != nil && s.attempt.version == s.object.ResourceVersion:
		return attempted(now, s)
	case len(by[ownerWaits]) > 0 && s.dependents:
		return deleteInForeground(s)
	}
	why := "deletes it: no owner is left, neither " + describe(s.object.OwnerReferences)
	return remove(s.object, propagation(s.object), why)
}

// keep removes the references that an object with an owner does not need (GC-36, GC-49). References are removed by uid,
// so one to the uid of an owner stays, even if the rest of it is wrong.
func keep(o *metav1.PartialObjectMetadata, existing []metav1.OwnerReference) decision {
	var kept []metav1.OwnerReference
	exists := uidsOf(existing, nil)
	for _, ref := range o.OwnerReferences {
		if exists[ref.UID] {
			kept = append(kept, ref)
		}
	}
	if len(kept) == len(o.OwnerReferences) {
		return decision{}
	}
	why := "an owner exists; removes the references to those that do not, or are being deleted"
	return decision{Plan: plan.Plan{Steps: []plan.Step{withOwners(o, kept, why)}, Why: why}}
}

// attempted waits for the watch to show what became of a deletion, in which a stale version may have been named
// (GC-40).
func attempted(now time.Time, s snapshot) decision {
	d := because("waits until the watch shows what became of its deletion")
	if d.Requeue = attemptLasts - now.Sub(s.attempt.at); d.Requeue <= 0 {
		return readFirst(s)
	}
	return d
}

// readFirst has an object read live, from the resource in which it was seen (GC-30, GC-40).
func readFirst(s snapshot) decision {
	d := because("reads it live, as no watch shows what became of it")
	d.read, d.Proof = true, []plan.Ref{s.ref()}
	return d
}

// deleteInForeground deletes an object whose owner waits for it, and that has dependents itself. If one of these waits,
// too, there may be a cycle: then the object must not block its owners (GC-37).
func deleteInForeground(s snapshot) decision {
	o := s.object
	if s.dependentWaiting && slices.ContainsFunc(o.OwnerReferences, blocks) {
		var unblocked []metav1.OwnerReference
		for _, ref := range o.OwnerReferences {
			if ref.BlockOwnerDeletion != nil {
				ref.BlockOwnerDeletion = new(bool)
			}
			unblocked = append(unblocked, ref)
		}
		why := "its dependents and its owners may wait for one another; blocks its owners no longer"
		return decision{Plan: plan.Plan{Steps: []plan.Step{withOwners(o, unblocked, why)}, Why: why}}
	}
	why := fmt.Sprintf("deletes it with its dependents: the owner %s waits for that", describe(o.OwnerReferences))
	return remove(o, metav1.DeletePropagationForeground, why)
}

// propagation is the policy that the finalizers of an object ask for (GC-38).
func propagation(o *metav1.PartialObjectMetadata) metav1.DeletionPropagation {
	switch {
	case slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// remove deletes an object, if it is still as it was observed (GC-39).
func remove(o *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation, why string) decision {
	step := plan.Delete{
		Objects: []plan.Object{o}, CheckVersion: true, Propagation: policy, Unowned: true, Why: why,
	}
	return decision{Plan: plan.Plan{Steps: []plan.Step{step}, Why: why, Requeue: attemptLasts}, deletes: true}
}

// decideForeground releases an object that waits for its dependents, if none is left that blocks it (GC-44, GC-45).
// While there are many, it looks at some.
func decideForeground(s snapshot) decision {
	if len(s.blocking) == 0 {
		if !s.complete {
			return unlisted()
		}
		why := "none of its dependents blocks its deletion any more"
		return released(s.object, metav1.FinalizerDeleteDependents, why)
	}
	d := because("waits for %d dependents that block its deletion: %s", s.allBlocking, some(s.blocking))
	for _, b := range s.blocking {
		if b.undecided {
			d.enqueue = append(d.enqueue, b.node)
		}
	}
	return d
}

// decideOrphan takes the references to an object off its dependents, and then releases it (GC-47, GC-48).
func decideOrphan(s snapshot) decision {
	switch {
	case s.absent:
		return readFirst(s)
	case !s.orphaning:
		return decision{}
	}
	if !s.complete {
		return unlisted()
	}
	d := released(s.object, metav1.FinalizerOrphanDependents, "its dependents are orphaned")
	var drops plan.Each
	for _, o := range s.orphans {
		left := slices.DeleteFunc(slices.Clone(o.OwnerReferences), func(ref metav1.OwnerReference) bool {
			return ref.UID == s.object.UID
		})
		drops.Sequences = append(drops.Sequences, []plan.Step{withOwners(o, left, "its owner is deleted without it")})
	}
	if len(drops.Sequences) > 0 {
		d.Steps = append([]plan.Step{drops}, d.Steps...)
	}
	return d
}

// released takes a finalizer off an object (GC-50).
func released(o *metav1.PartialObjectMetadata, finalizer, why string) decision {
	after := *o
	after.Finalizers = slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == finalizer })
	step := plan.Change{Old: o, New: &after, Unowned: true, Why: why}
	return decision{Plan: plan.Plan{Steps: []plan.Step{step}, Why: why}}
}

func withOwners(o *metav1.PartialObjectMetadata, owners []metav1.OwnerReference, why string) plan.Step {
	after := *o
	after.OwnerReferences = owners
	return plan.Change{Old: o, New: &after, Unowned: true, Why: why}
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
		all = append(all, ref.Kind+" "+ref.Name+" ("+ref.APIVersion+", uid "+string(ref.UID)+")")
	}
	if more := len(refs) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d others", more))
	}
	return strings.Join(all, " nor ")
}

// some names the first of the dependents.
func some(all []dependent) string {
	var names []string
	for _, d := range all[:min(3, len(all))] {
		names = append(names, d.kind+" "+d.name)
	}
	if len(all) > len(names) {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
