package oracle

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// revision is a Revision with what the rest of the history tells about it.
type revision struct {
	*Revision
	kind, key string
	uid       types.UID
	old       Object    // nil if it is new
	by        *request  // who made it; nil if unknown
	manager   bool      // it was the manager's, see the package's documentation
	author    string    // the manager's process, as Options.Identity names it; empty if unknown
	at        time.Time // when, as far as it is known; never before its predecessors
}

// identity is an object for all of its life. A uid alone is none: a server may show an object under the uid of another one's.
type identity struct {
	kind string
	uid  types.UID
}

func (r *revision) identity() identity { return identity{r.kind, r.uid} }

// request is a Request with what the rest of the history tells about it.
type request struct {
	*Request
	manager bool
	made    *revision // nil if it changed nothing, or that is not known
	noop    bool      // it is known to have changed nothing
}

// goes reports whether the revision ends the object, or begins its end.
func (r *revision) goes() bool {
	return r.Type == Deleted || r.Object.GetDeletionTimestamp() != nil && (r.old == nil || r.old.GetDeletionTimestamp() == nil)
}

// hastens reports whether the revision shortens the grace period of an object that is being deleted and does not go yet.
func (r *revision) hastens() bool {
	return r.old != nil && r.old.GetDeletionTimestamp() != nil &&
		!ptr.Equal(r.old.GetDeletionGracePeriodSeconds(), r.Object.GetDeletionGracePeriodSeconds())
}

// deletes reports whether the revision shows that a deletion was asked for. The end of an object that was to end already, and
// of which somebody has removed the last finalizer, does not.
func (r *revision) deletes() bool {
	if r.by != nil {
		return r.goes() && r.by.Verb == "delete"
	}
	return r.goes() && (r.old == nil || r.old.GetDeletionTimestamp() == nil)
}

// forced reports whether a deletion was asked for without any grace: of the controllers, podgc alone does that.
func (r *revision) forced() bool {
	return r.manager && r.by != nil && r.by.Verb == "delete" && r.by.Grace != nil && *r.by.Grace == 0
}

// linked is a history in order, each revision with its predecessor and its author.
type linked struct {
	revisions  []*revision
	requests   []*request            // those of the managers, in order of arrival
	ofObject   map[string][]int      // kind/namespace/name -> indexes in revisions
	lookups    map[lookup][]*Request // the managers' live reads of an object, in order
	attributed bool                  // there are requests
}

// lookup names an object that was read live.
type lookup struct{ resource, namespace, name string }

func link(h *History, o *Options) *linked {
	l := &linked{ofObject: map[string][]int{}, lookups: map[lookup][]*Request{}, attributed: len(h.Requests) > 0}
	for i := range h.Revisions {
		r := &h.Revisions[i]
		if kind := r.Kind(); kind != "" {
			l.revisions = append(l.revisions, &revision{Revision: r, kind: kind, key: r.Key(), uid: r.Object.GetUID()})
		}
	}
	slices.SortStableFunc(l.revisions, func(a, b *revision) int { return cmp.Compare(a.Version, b.Version) })
	last := map[string]*revision{}
	for i, r := range l.revisions {
		id := r.kind + "/" + r.key
		l.ofObject[id] = append(l.ofObject[id], i)
		if before := last[id]; before != nil && before.Type != Deleted && before.uid == r.uid {
			r.old = before.Object
		}
		last[id] = r
	}
	l.readRequests(h, o)
	l.attribute(o)
	return l
}

func (l *linked) readRequests(h *History, o *Options) {
	for i := range h.Requests {
		r := &request{Request: &h.Requests[i]}
		r.manager = o.Manager(*r.Request)
		l.requests = append(l.requests, r)
	}
	slices.SortStableFunc(l.requests, func(a, b *request) int { return a.Received.Compare(b.Received) })
	for _, r := range l.requests {
		if object := (lookup{r.Resource, r.Namespace, r.Name}); r.manager && r.Verb == "get" {
			l.lookups[object] = append(l.lookups[object], r.Request)
		}
	}
}

// attribute finds out who made each revision.
func (l *linked) attribute(o *Options) {
	byVersion := map[int64]*revision{}
	ends := map[types.UID][]*revision{} // the revisions that end an object
	answers := map[int64]*request{}     // the changes that were answered with a version
	for _, r := range l.revisions {
		byVersion[r.Version] = r
		if r.goes() {
			ends[r.uid] = append(ends[r.uid], r)
		}
	}
	for _, q := range l.requests {
		if q.write() && q.Succeeded() && q.Verb != "delete" && q.shows(byVersion[q.Version]) {
			answers[q.Version] = q
		}
	}
	// Who was answered with the end of an object has made it, and not an earlier one that was answered with less.
	unanswered := func(q *request, ends []*revision) []*revision {
		return slices.DeleteFunc(slices.Clone(ends), func(r *revision) bool {
			by := answers[r.Version]
			return by != nil && by != q
		})
	}
	for _, q := range l.requests {
		if !q.write() || !q.Succeeded() {
			continue
		}
		r := byVersion[q.Version]
		if !q.shows(r) {
			r = nil
		}
		answered := r
		if q.Verb == "delete" && (r == nil || !r.goes() && !r.hastens() || r.by != nil) {
			r = q.chooseEnd(ends[q.ResponseUID])
		}
		// An object that is being deleted goes with its last finalizer, in the version that it had.
		others := q.Verb != "create" && q.Verb != "delete" && r != nil && q.follows(r)
		if q.Verb != "create" && r != nil && (r.by != nil || others) {
			if end := q.chooseEnd(unanswered(q, ends[r.uid])); end != nil {
				r, others = end, false
			}
		}
		if r == nil { // one of two that delete what a finalizer holds is answered with what the other has made
			q.noop = q.Verb == "delete" && answered != nil && answered.by != nil && answered.Object.GetDeletionTimestamp() != nil
			continue
		}
		if r.by != nil || others || q.Verb != "create" && q.Verb != "delete" && r.Type == Added {
			q.noop = true // it was answered with what another had made
			continue
		}
		r.by, q.made = q, r
	}
	for _, r := range l.revisions {
		switch {
		case r.Injected:
		case r.by != nil:
			if r.manager = r.by.manager; r.manager {
				r.author = o.Identity(*r.by.Request)
			}
		case !l.attributed:
			r.manager = r.managers()
		}
	}
}

// endSeenWithin is how long after the answer to a deletion its revision may be seen.
const endSeenWithin = 10 * time.Second

// held reports whether the revision removes an object that a finalizer has kept until then. No deletion does that, but who takes
// off the finalizer. The finalizers of the garbage collector are not meant: deletions take them off.
func (r *revision) held() bool {
	return r.Type == Deleted && r.old != nil && slices.ContainsFunc(r.old.GetFinalizers(), func(f string) bool {
		return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
	})
}

// shows reports whether the answer may be a revision: one of the object that was asked for.
func (q *request) shows(r *revision) bool {
	return r != nil && resources[r.kind] == q.Resource && (q.Name == "" || q.Name == r.Object.GetName())
}

// follows reports whether a change was answered with a revision that it cannot have made: one that was seen before it was asked for,
// or one that begins the end of its object.
func (q *request) follows(r *revision) bool {
	early := !q.Received.IsZero() && !r.When.IsZero() && r.When.Before(q.Received.Add(-time.Second))
	return early || r.Type == Modified && r.goes()
}

// chooseEnd is the revision that a request made which ended an object, of those of that object: there are two if it ended with
// grace, the first of which only a deletion makes. There is none if the object was being deleted already.
func (q *request) chooseEnd(ends []*revision) *revision {
	for _, r := range ends {
		inTime := !r.When.Before(q.Received.Add(-time.Second)) && !r.When.After(q.Done.Add(endSeenWithin))
		if q.Verb != "delete" && r.Type == Modified {
			continue
		}
		if r.by == nil && !(q.Verb == "delete" && r.held()) && (q.Done.IsZero() || r.When.IsZero() || inTime) {
			return r
		}
	}
	return nil
}

// managers reports whether a manager could have made the revision, if nothing is known about its author.
func (r *revision) managers() bool {
	switch r.kind {
	case Pod:
		_, controlled := controller(r.Object)
		if r.old == nil || r.goes() {
			return controlled
		}
		_, was := controller(r.old)
		return controlled != was
	case EndpointSlice:
		return managesSlices(r.Object)
	case ReplicaSet, Endpoints, Lease:
		return true
	case Deployment, ReplicationController, DaemonSet, StatefulSet, Job, PodDisruptionBudget:
		return r.old != nil && !r.goes() && r.old.GetGeneration() == r.Object.GetGeneration()
	}
	return false
}
