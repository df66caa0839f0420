package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

const (
	// budgetWindow is for how long what was deleted without further proof counts.
	budgetWindow = 10 * time.Minute
	// lossLasts is how long after a list has lacked an object of a kind others may still be found to be lacking: they come one after the other.
	lossLasts = time.Second
	// proveAgain is when the server is asked again that could not prove anything.
	proveAgain = 10 * time.Second
	// provedFor is how long a proof is good for.
	provedFor = 30 * time.Second
	// emptyFor is how long an aggregated API has to have no objects at all before that is believed.
	emptyFor = time.Hour
)

// A deletion by name is seen by the watch, and needs no further proof. That a live read has not found an owner is proof enough if the API server
// itself serves its kind, from its storage. But an aggregated API may have lost its own storage, and then it finds nothing: it is believed only
// if it has other objects.

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
	emptySince   time.Time               // since when the API has answered that it has no objects
	lastAsked    time.Time               // when it last did
	settled      bool                    // that was proved in this term, so that what the previous leader has held counts no longer
}

// releaseHeld has the brake hold nothing any more.
func (t *term) releaseHeld() {
	for kind := range t.absentByKind {
		t.brake.Release(held(kind), brake.NothingLeft)
	}
}

// held is what the brake holds, in words.
func held(kind schema.GroupKind) string { return "the dependents of " + kind.String() }

// unlessHeld returns the decision, or one to wait if it may not be carried out for now.
func (t *term) unlessHeld(now time.Time, n *node, d decision) decision {
	if d.Empty() || n.deleting || d.read {
		return d
	}
	for _, kind := range t.graph.missingKinds(n) {
		if why, again := t.hold(now, n, kind); why != "" {
			d = because("waits: %s", why)
			d.Requeue = again
			return d
		}
	}
	return d
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

// missingKinds are the kinds of the owners of n that live reads have not found. What Kubernetes itself defines is in the API server's own storage.
func (g *graph) missingKinds(n *node) (kinds []schema.GroupVersionKind) {
	found := sets.New[schema.GroupKind]()
	for _, ref := range n.owners {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		if found.Has(kind.GroupKind()) || scheme.Scheme.IsGroupRegistered(kind.Group) || g.ownerOf(n, ref) != nil {
			continue
		}
		if s := g.owners[ref.UID].stated[g.statedBy(n, ref)]; s != nil && s.ownerState == notFound {
			found.Insert(kind.GroupKind())
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// lose notes that a list has lacked an owner. What was proved before says nothing about that.
func (a *absentOwners) lose(now time.Time) { a.lastLost, a.provedUntil = now, time.Time{} }

// hold holds a dependent if the budget is exceeded or the previous leader has held it, and has proof looked for. It returns why the dependent is held,
// if it is, and when it is to be decided about again if nothing else leads to that.
func (t *term) hold(now time.Time, n *node, kind schema.GroupVersionKind) (why string, again time.Duration) {
	a := t.absentOwnersOf(kind.GroupKind())
	a.kind = kind
	switch {
	case now.Before(a.provedUntil), t.brake.Released():
		return "", 0
	case len(a.held) > 0:
	case now.Sub(a.lastLost) < lossLasts:
		return "a list has lacked its owner a moment ago", lossLasts
	case !t.inherits(now, a) && !t.countAndCompare(now, n, a):
		return "", 0
	default:
		t.prove.add(item{statedOwner: statedOwner{apiVersion: kind.GroupVersion().String(), kind: kind.Kind}})
	}
	a.held.Insert(n)
	return a.reason, 0
}

// inherits reports whether the previous leader has held dependents of a kind, and notes that as the reason. Those that are left may be few now, which
// proves nothing.
func (t *term) inherits(now time.Time, a *absentOwners) bool {
	since, ok := t.brake.Inherited(now, held(a.kind.GroupKind()))
	if !ok || a.settled {
		return false
	}
	a.reason = fmt.Sprintf("its owner has not been found, and the previous leader has held the dependents of %s since %s, so that proof is looked for",
		a.kind.GroupKind(), since.UTC().Format(time.RFC3339))
	return true
}

// countAndCompare counts n among the dependents that were deleted without further proof, unless those whose owners have not been found are out of the
// ordinary, among all that have owners of the kind: then it returns true.
func (t *term) countAndCompare(now time.Time, n *node, a *absentOwners) bool {
	if now.Sub(a.deletedSince) > budgetWindow {
		a.deleted, a.deletedSince = sets.New[*node](), now
	}
	if a.uncounted--; a.uncounted < 0 {
		ownerless, all := t.graph.countDependents(a.kind.GroupKind(), a.deleted)
		if t.brake.Trips(ownerless, all) {
			a.reason = fmt.Sprintf("its owner has not been found, nor have those of %d of %d dependents of %s, so that proof is looked for", ownerless, all, a.kind.GroupKind())
			return true
		}
		a.uncounted = all / 100
	}
	a.deleted.Insert(n)
	return false
}

// countDependents counts the dependents of a kind of owners, and those of them whose owners are not known to exist, or to have been deleted.
// What deleted has counts as well, whether it is still there or not.
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

// processAbsentOwners looks for proof that owners of a kind, which live reads have not found, are really gone.
func (r *runner) processAbsentOwners(ctx context.Context, i item) (time.Duration, error) {
	kind := i.groupVersionKind()
	answer, err := r.askAPI(ctx, kind)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.term.absentByKind[kind.GroupKind()]
	if a == nil || ctx.Err() != nil {
		return 0, nil
	}
	for n := range a.held {
		if !r.term.graph.has(n) || n.deleting || !slices.ContainsFunc(r.term.graph.missingKinds(n), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() }) {
			a.held.Delete(n)
			r.term.remove.add(item{node: n})
		}
	}
	if answer != empty || now.Sub(a.lastAsked) > budgetWindow {
		a.emptySince = now
	}
	a.lastAsked = now
	switch {
	case len(a.held) == 0:
		r.brake.Release(held(kind.GroupKind()), brake.NothingLeft)
		return 0, nil
	case r.brake.Released():
		r.term.letGo(a, brake.ByOperator)
		return 0, nil
	case answer == believed:
		r.term.believe(a, now, brake.ByProof)
		return 0, nil
	case answer == filled:
		r.term.readAgain(kind.GroupKind())
		r.term.believe(a, now, brake.ByProof)
		return 0, nil
	case answer == empty && now.Sub(a.emptySince) >= emptyFor:
		r.term.readAgain(kind.GroupKind())
		r.term.believe(a, now, brake.ByTime)
		return 0, nil
	case answer == unregistered: // they can no longer be looked up
		r.term.readAgain(kind.GroupKind())
		err = errors.New("the API group is registered no longer")
	case answer == empty:
		err = fmt.Errorf("its API server is not Kubernetes' own and has no object at all, not even in a list; this is believed at %s if nothing changes", a.emptySince.Add(emptyFor).UTC().Format(time.RFC3339))
	}
	a.reason = fmt.Sprintf("its owner has not been found, and it is not proved that it is gone: %v", err)
	r.brake.Hold(now, held(kind.GroupKind()), fmt.Sprintf("the owners of %d have not been found, and it is not proved that they are gone: %v", len(a.held), err))
	return proveAgain, nil
}

// believe has owners that are not found count as gone for a while, and lets what was held go.
func (t *term) believe(a *absentOwners, now time.Time, cause brake.Cause) {
	a.provedUntil, a.settled = now.Add(provedFor), true
	t.letGo(a, cause)
}

// letGo has what was held decided about again.
func (t *term) letGo(a *absentOwners, cause brake.Cause) {
	for n := range a.held {
		t.remove.add(item{node: n})
	}
	a.held, a.uncounted = sets.New[*node](), 0
	t.brake.Release(held(a.kind.GroupKind()), cause)
}

// readAgain has the owners of a kind looked up again that live reads have not found: these may have been answered before the API was well.
func (t *term) readAgain(kind schema.GroupKind) {
	for _, o := range t.graph.owners {
		for c, s := range o.stated {
			if s.ownerState == notFound && c.groupVersionKind().GroupKind() == kind {
				s.ownerState = unverified
				t.verify.add(item{statedOwner: c})
			}
		}
	}
}

// apiAnswer is what an API says of itself.
type apiAnswer int

const (
	unwell       apiAnswer = iota // it does not answer, or says that it cannot
	believed                      // the API server itself serves it, or nobody may ask who does
	filled                        // it is aggregated, and has objects
	empty                         // it is aggregated, and has none
	unregistered                  // nobody serves it
)

// askAPI finds out who serves a kind, and whether there are objects. The error says why that is unwell.
func (r *runner) askAPI(ctx context.Context, kind schema.GroupVersionKind) (apiAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if answer, err := r.askRegistration(ctx, kind.GroupVersion()); answer != filled {
		return answer, err
	}
	m, err := r.mapper.Mapping(ctx, kind)
	if err != nil {
		return unwell, err
	}
	some, err := r.metadata.Any(ctx, m.GroupVersionResource())
	switch {
	case err != nil:
		return unwell, err
	case some:
		return filled, nil
	}
	return empty, nil
}

// askRegistration finds out whether a group is aggregated; then the answer is filled. What the API server itself has served once, it serves as
// long as anybody does: the registration goes with the last custom resource definition.
func (r *runner) askRegistration(ctx context.Context, group schema.GroupVersion) (apiAnswer, error) {
	r.mu.Lock()
	known := r.term.local.Has(group)
	r.mu.Unlock()
	if known {
		return believed, nil
	}
	answer, err := r.client.GetRaw(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/"+group.Version+"."+group.Group, nil)
	var registration struct {
		Spec   struct{ Service *struct{} }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	switch {
	case client.IsAbsent(err):
		return unregistered, nil
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // a server that does not aggregate, or a role that hides it
		return believed, nil
	case err != nil:
		return unwell, fmt.Errorf("ask who serves %s: %w", group, err)
	}
	if err := json.Unmarshal(answer, &registration); err != nil {
		return unwell, fmt.Errorf("ask who serves %s: %w", group, err)
	}
	if registration.Spec.Service == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.term.local.Insert(group)
		return believed, nil
	}
	for _, c := range registration.Status.Conditions {
		if c.Type == "Available" && c.Status != "True" {
			return unwell, fmt.Errorf("the API service is not available: %s", c.Message)
		}
	}
	return filled, nil
}
