package garbagecollector

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

const (
	// budgetWindow is for how long what was deleted without further proof counts.
	budgetWindow = 10 * time.Minute
	// lossLasts is how long after a list has lacked an object of a kind others may still be found to be lacking: they
	// come one after the other.
	lossLasts = time.Second
	// provedFor is how long a proof is good for.
	provedFor = 30 * time.Second
)

// A deletion by name is seen by the watch, and needs no further proof. That a live read has not found an owner is proof
// enough if the API server itself serves its kind, from its storage. But an aggregated API may have lost its own
// storage, and then it finds nothing: it is believed only if it has other objects.

// absentOwners is what is known of a kind of owners that live reads have not found.
type absentOwners struct {
	kind         schema.GroupVersionKind // as the reference says of which somebody last asked
	held         sets.Set[*node]         // dependents that wait for proof
	reason       string                  // for each of them
	lastLost     time.Time               // when a list has last lacked an owner
	uncounted    int                     // how many more may be deleted before they are counted again
	deleted      sets.Set[*node]         // dependents that were deleted without further proof
	deletedSince time.Time               // when the first of these was
	provedUntil  time.Time               // until then, owners that are not found are believed to be gone
	settled      bool                    // proved in this term: what the previous leader has held counts no longer
}

// releaseHeld has the brake hold nothing any more.
func (t *term) releaseHeld() {
	for kind := range t.absentByKind {
		t.brake.Release(held(kind), brake.NothingLeft)
	}
}

// held is what the brake holds, in words.
func held(kind schema.GroupKind) string { return "the dependents of " + kind.String() }

// waitsForProof says why a dependent with missing owners of these kinds waits for proof, if it does, and when it is to
// be decided about again if nothing else leads to that.
func (t *term) waitsForProof(now time.Time, missing []schema.GroupVersionKind) (why string, again time.Duration) {
	for _, kind := range missing {
		a := t.absentByKind[kind.GroupKind()]
		switch {
		case a == nil, now.Before(a.provedUntil), t.brake.Released():
		case len(a.held) > 0:
			return a.reason, 0
		case now.Sub(a.lastLost) < lossLasts:
			return "a list has lacked its owner a moment ago", lossLasts
		}
	}
	return "", 0
}

// holdAny reports whether a dependent waits for proof, and holds it if so.
func (t *term) holdAny(now time.Time, s snapshot) bool {
	for _, kind := range s.missing {
		if t.hold(now, s.node, kind) {
			return true
		}
	}
	return false
}

// absentOwnersOf returns what is known of a kind.
func (t *term) absentOwnersOf(kind schema.GroupKind) *absentOwners {
	a := t.absentByKind[kind]
	if a == nil {
		a = &absentOwners{held: sets.New[*node](), deleted: sets.New[*node]()}
		t.absentByKind[kind] = a
	}
	return a
}

// missingKinds are the kinds of the owners of n that live reads have not found. What Kubernetes itself defines is in
// the API server's own storage.
func (g *graph) missingKinds(n *node) (kinds []schema.GroupVersionKind) {
	var found sets.Set[schema.GroupKind]
	for _, ref := range n.owners {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		if found.Has(kind.GroupKind()) || scheme.Scheme.IsGroupRegistered(kind.Group) || g.ownerOf(n, ref) != nil {
			continue
		}
		if s := g.owners[ref.UID].stated[g.statedBy(n, ref)]; s != nil && s.ownerState == notFound {
			if kinds = append(kinds, kind); found == nil {
				found = sets.New[schema.GroupKind]()
			}
			found.Insert(kind.GroupKind())
		}
	}
	return kinds
}

// lose notes that a list has lacked an owner. What was proved before says nothing about that.
func (a *absentOwners) lose(now time.Time) { a.lastLost, a.provedUntil = now, time.Time{} }

// hold holds a dependent if the budget is exceeded or the previous leader has held it, and has proof looked for. It
// reports whether the dependent waits for that, or for a moment.
func (t *term) hold(now time.Time, n *node, kind schema.GroupVersionKind) bool {
	a := t.absentOwnersOf(kind.GroupKind())
	a.kind = kind
	switch {
	case now.Before(a.provedUntil), t.brake.Released():
		return false
	case len(a.held) > 0:
	case now.Sub(a.lastLost) < lossLasts:
		return true
	case !t.inherits(now, a) && !t.countAndCompare(now, n, a):
		return false
	default:
		t.prove.Enqueue(kind.GroupKind(), "", 0)
	}
	a.held.Insert(n)
	return true
}

// inherits reports whether the previous leader has held dependents of a kind, and notes that as the reason. Those that
// are left may be few now, which proves nothing.
func (t *term) inherits(now time.Time, a *absentOwners) bool {
	since, ok := t.brake.Inherited(now, held(a.kind.GroupKind()))
	if !ok || a.settled {
		return false
	}
	a.reason = fmt.Sprintf("its owner has not been found, and the previous leader has held the dependents of %s "+
		"since %s, so that proof is looked for",
		a.kind.GroupKind(), since.UTC().Format(time.RFC3339))
	return true
}

// countAndCompare counts n among the dependents that were deleted without further proof, unless those whose owners have
// not been found are out of the ordinary, among all that have owners of the kind: then it returns true.
func (t *term) countAndCompare(now time.Time, n *node, a *absentOwners) bool {
	if now.Sub(a.deletedSince) > budgetWindow {
		a.deleted, a.deletedSince = sets.New[*node](), now
	}
	if a.uncounted--; a.uncounted < 0 {
		ownerless, all := t.graph.countDependents(a.kind.GroupKind(), a.deleted)
		if t.brake.Trips(ownerless, all) {
			a.reason = fmt.Sprintf("its owner has not been found, nor have those of %d of %d dependents of %s, "+
				"so that proof is looked for", ownerless, all, a.kind.GroupKind())
			return true
		}
		a.uncounted = all / 100
	}
	a.deleted.Insert(n)
	return false
}

// countDependents counts the dependents of a kind of owners, and those of them whose owners are not known to exist, or
// to have been deleted. What deleted has counts as well, whether it is still there or not.
func (g *graph) countDependents(kind schema.GroupKind, deleted sets.Set[*node]) (ownerless, all int) {
	ownerless, all = len(deleted), len(deleted)
	for uid, o := range g.owners {
		of, absent := false, false
		for n := range g.twins(uid) {
			of = of || n.kind.GroupKind() == kind
		}
		for c, s := range o.stated {
			if c.groupVersionKind().GroupKind() == kind {
				of, absent = true, absent || s.ownerState == notFound || s.ownerState == unverified
			}
		}
		if !of {
			continue
		}
		left := len(o.dependents)
		for n := range o.dependents {
			if deleted.Has(n) {
				left--
			}
		}
		if all += left; absent {
			ownerless += left
		}
	}
	return ownerless, all
}

// waiting counts the dependents that still wait for proof that owners of a kind are gone.
func (t *term) waiting(kind schema.GroupKind) (n int) {
	for d := range t.absentOwnersOf(kind).held {
		if t.lacksOwner(d, kind) {
			n++
		}
	}
	return n
}

// lacksOwner reports whether an object is there, and an owner of the kind has not been found.
func (t *term) lacksOwner(n *node, kind schema.GroupKind) bool {
	of := func(missing schema.GroupVersionKind) bool { return missing.GroupKind() == kind }
	return t.graph.has(n) && !n.deleting && slices.ContainsFunc(t.graph.missingKinds(n), of)
}

// commitAbsence updates the term: what was held goes if that was decided, and otherwise it says why it is held.
func (r *runner) commitAbsence(s absenceSnapshot, d absenceDecision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, now, a := r.term, time.Now(), r.term.absentOwnersOf(s.Kind)
	for n := range a.held {
		if !t.lacksOwner(n, s.Kind) {
			a.held.Delete(n)
			t.enqueue(n, 0)
		}
	}
	if d.ReadAgain {
		t.readAgain(s.Kind)
	}
	switch d.Verdict {
	case verdictNothingLeft:
		t.brake.Release(held(s.Kind), brake.NothingLeft)
	case verdictReleased:
		t.letGo(a, brake.ByOperator)
	case verdictProved:
		t.believe(a, now, brake.ByProof)
	case verdictInTime:
		t.believe(a, now, brake.ByTime)
	default:
		a.reason = "its owner has not been found, and it is not proved that it is gone: " + d.Why
		t.brake.Hold(now, held(s.Kind), fmt.Sprintf("the owners of %d have not been found, "+
			"and it is not proved that they are gone: %s", s.Waiting, d.Why))
	}
	return nil
}

// believe has owners that are not found count as gone for a while, and lets what was held go.
func (t *term) believe(a *absentOwners, now time.Time, cause brake.Cause) {
	a.provedUntil, a.settled = now.Add(provedFor), true
	t.letGo(a, cause)
}

// letGo has what was held decided about again.
func (t *term) letGo(a *absentOwners, cause brake.Cause) {
	for n := range a.held {
		t.enqueue(n, 0)
	}
	a.held, a.uncounted = sets.New[*node](), 0
	t.brake.Release(held(a.kind.GroupKind()), cause)
}

// readAgain has the owners of a kind looked up again that live reads have not found: these may have been answered
// before the API was well.
func (t *term) readAgain(kind schema.GroupKind) {
	for _, o := range t.graph.owners {
		for c, s := range o.stated {
			if s.ownerState == notFound && c.groupVersionKind().GroupKind() == kind {
				s.ownerState = unverified
				t.verifyOwner(c)
			}
		}
	}
}
