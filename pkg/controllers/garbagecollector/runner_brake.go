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

// doubt is what is known of a kind of owners that live reads have not found.
type doubt struct {
	kind    schema.GroupVersionKind // as the reference says of which somebody last asked
	held    sets.Set[*node]         // dependents that wait for proof
	why     string                  // for each of them
	lost    time.Time               // when a list has last lacked an owner
	permits int                     // how many more may go before they are counted again
	spent   sets.Set[*node]         // what went without further proof
	since   time.Time               // of the first of these
	proved  time.Time               // until when nothing is in doubt
	empty   time.Time               // since when the API has answered that it has no objects
	asked   time.Time               // when it last did
}

// beginDoubts is called under the lock.
func (r *runner) beginDoubts() {
	for kind := range r.doubts {
		r.brake.Release(held(kind), brake.NothingLeft)
	}
	r.doubts, r.local = map[schema.GroupKind]*doubt{}, sets.New[schema.GroupVersion]()
}

// held is what the brake holds, in words.
func held(kind schema.GroupKind) string { return "the dependents of " + kind.String() }

// unlessHeld returns the decision, or one to wait if it may not be carried out for now. It is called under the lock.
func (r *runner) unlessHeld(now time.Time, n *node, d decision) decision {
	if d.Empty() || n.deleting || d.read {
		return d
	}
	for _, kind := range r.inDoubt(n) {
		if why, again := r.holds(now, n, kind); why != "" {
			d = because("waits: %s", why)
			d.Requeue = again
			return d
		}
	}
	return d
}

// doubtOf returns what is known of a kind.
func (r *runner) doubtOf(kind schema.GroupKind) *doubt {
	d := r.doubts[kind]
	if d == nil {
		d = &doubt{held: sets.New[*node](), spent: sets.New[*node]()}
		r.doubts[kind] = d
	}
	return d
}

// inDoubt are the kinds of the owners of n that live reads have not found. What Kubernetes itself defines is in the API server's own storage.
func (g *graph) inDoubt(n *node) (kinds []schema.GroupVersionKind) {
	for _, ref := range n.owners {
		c := g.statedBy(n, ref)
		if kind := c.groupVersionKind(); g.ownerOf(n, ref) == nil && g.owners[ref.UID].stated[c] == notFound && !scheme.Scheme.IsGroupRegistered(kind.Group) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// loses notes that a list has lacked an owner. What was proved before says nothing about that.
func (d *doubt) loses(now time.Time) { d.lost, d.proved = now, time.Time{} }

// holds says why a dependent is held, and when it is to be decided about again if nothing else leads to that.
func (r *runner) holds(now time.Time, n *node, kind schema.GroupVersionKind) (why string, again time.Duration) {
	d := r.doubtOf(kind.GroupKind())
	d.kind = kind
	switch {
	case now.Before(d.proved), r.brake.Released():
		return "", 0
	case len(d.held) > 0:
	case now.Sub(d.lost) < lossLasts:
		return "a list has lacked its owner a moment ago", lossLasts
	case !r.exceeds(now, n, d):
		return "", 0
	default:
		r.prove.add(item{statedOwner: statedOwner{apiVersion: kind.GroupVersion().String(), kind: kind.Kind}})
	}
	d.held.Insert(n)
	return d.why, 0
}

// exceeds reports whether the dependents whose owners have not been found are out of the ordinary, among all that have owners of the kind. If
// they are not, n goes.
func (r *runner) exceeds(now time.Time, n *node, d *doubt) bool {
	if now.Sub(d.since) > budgetWindow {
		d.spent, d.since = sets.New[*node](), now
	}
	if d.permits--; d.permits < 0 {
		doubted, all := r.countDependents(d.kind.GroupKind(), d.spent)
		if r.brake.Trips(doubted, all) {
			d.why = fmt.Sprintf("its owner has not been found, nor have those of %d of %d dependents of %s, so that proof is looked for", doubted, all, d.kind.GroupKind())
			return true
		}
		d.permits = all / 100
	}
	d.spent.Insert(n)
	return false
}

// countDependents counts the dependents of a kind of owners, and those of them whose owners are not known to exist, or to have been deleted.
// What is spent counts as well, whether it is still there or not.
func (g *graph) countDependents(kind schema.GroupKind, spent sets.Set[*node]) (doubted, all int) {
	doubted, all = len(spent), len(spent)
	for uid, o := range g.owners {
		of, doubtful := false, false
		for n := range g.twins(uid) {
			of = of || n.kind.GroupKind() == kind
		}
		for c, s := range o.stated {
			if c.groupVersionKind().GroupKind() == kind {
				of, doubtful = true, doubtful || s == notFound || s == unverified
			}
		}
		if !of {
			continue
		}
		left := len(o.dependents)
		for n := range o.dependents {
			if spent.Has(n) {
				left--
			}
		}
		if all += left; doubtful {
			doubted += left
		}
	}
	return doubted, all
}

// processDoubt looks for proof that owners of a kind, which live reads have not found, are really gone.
func (r *runner) processDoubt(ctx context.Context, i item) (time.Duration, error) {
	kind := i.groupVersionKind()
	answer, err := r.askAPI(ctx, kind)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.doubts[kind.GroupKind()]
	if d == nil || ctx.Err() != nil {
		return 0, nil
	}
	for n := range d.held {
		if !r.has(n) || n.deleting || !slices.ContainsFunc(r.inDoubt(n), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() }) {
			d.held.Delete(n)
			r.remove.add(item{node: n})
		}
	}
	if answer != empty || now.Sub(d.asked) > budgetWindow {
		d.empty = now
	}
	d.asked = now
	switch {
	case len(d.held) == 0:
		r.brake.Release(held(kind.GroupKind()), brake.NothingLeft)
		return 0, nil
	case r.brake.Released():
		r.letGo(d, brake.ByOperator)
		return 0, nil
	case answer == believed:
		d.proved = now.Add(provedFor)
		r.letGo(d, brake.ByProof)
		return 0, nil
	case answer == filled:
		d.proved = now.Add(provedFor)
		r.readAgain(kind.GroupKind())
		r.letGo(d, brake.ByProof)
		return 0, nil
	case answer == empty && now.Sub(d.empty) >= emptyFor:
		d.proved = now.Add(provedFor)
		r.readAgain(kind.GroupKind())
		r.letGo(d, brake.ByTime)
		return 0, nil
	case answer == unregistered: // they can no longer be looked up
		r.readAgain(kind.GroupKind())
		err = errors.New("the API group is registered no longer")
	case answer == empty:
		err = fmt.Errorf("its API server is not Kubernetes' own and has no object at all, not even in a list; this is believed at %s if nothing changes", d.empty.Add(emptyFor).UTC().Format(time.RFC3339))
	}
	d.why = fmt.Sprintf("its owner has not been found, and it is not proved that it is gone: %v", err)
	r.brake.Hold(now, held(kind.GroupKind()), fmt.Sprintf("the owners of %d have not been found, and it is not proved that they are gone: %v", len(d.held), err))
	return proveAgain, nil
}

// letGo has what was held decided about again. It is called under the lock.
func (r *runner) letGo(d *doubt, cause brake.Cause) {
	for n := range d.held {
		r.remove.add(item{node: n})
	}
	d.held, d.permits = sets.New[*node](), 0
	r.brake.Release(held(d.kind.GroupKind()), cause)
}

// readAgain has the owners of a kind looked up again that live reads have not found: these may have been answered before the API was well. It is
// called under the lock.
func (r *runner) readAgain(kind schema.GroupKind) {
	for _, o := range r.owners {
		for c, s := range o.stated {
			if s == notFound && c.groupVersionKind().GroupKind() == kind {
				o.stated[c] = unverified
				r.verify.add(item{statedOwner: c})
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
	known := r.local.Has(group)
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
	case isAbsent(err):
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
		r.local.Insert(group)
		return believed, nil
	}
	for _, c := range registration.Status.Conditions {
		if c.Type == "Available" && c.Status != "True" {
			return unwell, fmt.Errorf("the API service is not available: %s", c.Message)
		}
	}
	return filled, nil
}
