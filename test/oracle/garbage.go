package oracle

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collectorAccount is the service account of the garbage collector, and the end of its user agent (GC-1).
const collectorAccount = "generic-garbage-collector"

// OnlyGarbageIsCollected is S16: the garbage collector deletes an object only if it has owners, and none of them holds it at that revision:
// an owner holds it that exists under the uid, kind and name of the reference, in the namespace of the object or in none, and does not wait
// for its dependents to be deleted (GC-33, GC-43, GC-53). As each deletion names the version that was looked at (GC-39), a late cache is no
// excuse, and neither is an API that cannot be discovered, listed or read for a while (GC-9, GC-34); only that an owner waited until a
// moment ago is. No deletion is repeated (GC-28), and each carries the uid as precondition. The finalizers of an owner that is being
// deleted go last: foregroundDeletion after the dependents that block it (GC-44), orphan after the references of all dependents (GC-47), so
// that these stay. Dependents that are younger than the lag need not be known. Of kinds that are not recorded, nothing is known. It needs
// requests; without any it is silent.
func OnlyGarbageIsCollected() Oracle {
	return Oracle{"S16", "only garbage is collected, and owners go after their dependents", func(j *judge) hooks {
		c := &collectorJudge{judge: j, dependents: map[identity]map[identity]*dependent{}, waited: map[identity]time.Time{}}
		c.judgeRequests()
		return hooks{
			before: func(r *revision) {
				switch {
				case !r.manager || r.by == nil || !collects(r.by.Request):
				case r.by.Verb != "delete":
					c.released(r)
				case r.goes():
					c.deleted(r)
				}
			},
			after: c.note,
		}
	}}
}

// collects reports whether a request is the garbage collector's.
func collects(q *Request) bool { return isOf(q, collectorAccount) }

// isOf reports whether a request is that of the controller with a service account. The user agent ends with the whole name of the
// account, or with the short one.
func isOf(q *Request, account string) bool {
	return strings.HasSuffix(q.User, ":"+account) || strings.HasSuffix(q.UserAgent, ":"+account) ||
		strings.HasSuffix(q.UserAgent, "/"+account)
}

// collectorJudge is what S16 remembers.
type collectorJudge struct {
	*judge
	dependents map[identity]map[identity]*dependent // by their owner
	waited     map[identity]time.Time               // when an owner ceased to wait for its dependents, and stayed
}

// dependent is an object that exists and refers to an owner.
type dependent struct {
	Object
	since  time.Time // when the reference came
	blocks time.Time // since when it blocks the deletion of the owner; zero if it does not
}

// judgeRequests judges what the requests for deletions say, whether they have changed anything or not.
func (c *collectorJudge) judgeRequests() {
	ends := map[identity]*revision{} // the revisions that begin, or are, the ends of objects
	kinds := map[string]string{}     // by resource
	for _, r := range c.revisions {
		kinds[resources[r.kind]] = r.kind
		if r.goes() && ends[r.identity()] == nil {
			ends[r.identity()] = r
		}
	}
	asked := map[identity]bool{}
	for _, q := range c.requests {
		if !q.manager || !collects(q.Request) || q.Verb != "delete" || !q.Succeeded() {
			continue
		}
		uid := q.ResponseUID
		if q.made != nil {
			uid = q.made.uid
		}
		id := identity{kinds[q.Resource], uid}
		end := ends[id]
		if end == nil {
			continue // of a kind that is not recorded
		}
		c.judges(false)
		lag := c.lagAt(q.Received, c.o.Identity(*q.Request), end.kind)
		switch {
		case q.UID == "":
			c.report(end, nil, "the deletion has no uid as precondition")
		case q.UID != uid:
			c.report(end, nil, "the deletion meant uid %s", q.UID)
		case asked[id]:
			c.report(end, nil, "deleted once more at %s", q.Received.UTC().Format("15:04:05.000"))
		case end.by != q && q.made == nil && !end.When.IsZero() && end.When.Before(lag):
			c.report(end, nil, "deleted at %s, though it was being deleted already", q.Received.UTC().Format("15:04:05.000"))
		}
		asked[id] = true
	}
}

// deleted judges a deletion by the owners that the object has at that revision.
func (c *collectorJudge) deleted(r *revision) {
	o := r.Object
	if r.old != nil {
		o = r.old
	}
	refs := o.GetOwnerReferences()
	if len(refs) == 0 {
		c.judges(false)
		c.report(r, nil, "deleted though it has no owner that could be gone")
		return
	}
	judged := false
	for _, ref := range refs {
		owner := c.owners[identity{ref.Kind, ref.UID}]
		if owner == nil && newObject(ref.Kind) == nil {
			continue
		}
		judged = true
		if owner == nil || owner.gone != nil || !refersTo(o, owner.Object) || waits(owner.Object) ||
			c.recent(r, c.waited[identity{ref.Kind, ref.UID}], ref.Kind) {
			continue
		}
		how := "exists"
		if has(owner.Object, metav1.FinalizerOrphanDependents) && owner.GetDeletionTimestamp() != nil {
			how = "is being deleted without its dependents"
		}
		c.judges(false)
		id := kindOf(owner.Object) + "/" + keyOf(owner)
		c.report(r, []string{id}, "deleted though its owner %s, uid %s, %s", id, ref.UID, how)
		return
	}
	c.judges(!judged)
}

// released judges that a finalizer is taken from an owner that is being deleted.
func (c *collectorJudge) released(r *revision) {
	if r.old == nil || r.old.GetDeletionTimestamp() == nil {
		return
	}
	for _, finalizer := range []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents} {
		if !has(r.old, finalizer) || r.Type != Deleted && has(r.Object, finalizer) {
			continue
		}
		c.judges(false)
		if left := c.left(r, finalizer); len(left) > 0 {
			c.report(r, left, "loses the finalizer %s, though dependents are left: %s", finalizer, strings.Join(left, ", "))
		}
	}
}

// left names the dependents that an owner has to wait for, and that must be known.
func (c *collectorJudge) left(r *revision, finalizer string) (names []string) {
	for id, d := range c.dependents[r.identity()] {
		since := d.since
		if finalizer == metav1.FinalizerDeleteDependents {
			since = d.blocks
		}
		if id != r.identity() && !since.IsZero() && refersTo(d, r.old) && since.Before(c.lag(r, kindOf(d.Object))) {
			names = append(names, kindOf(d.Object)+"/"+keyOf(d))
		}
	}
	slices.Sort(names)
	return names
}

// note keeps the dependents of all owners, and when these ceased to wait.
func (c *collectorJudge) note(r *revision) {
	var before, now []metav1.OwnerReference
	if r.old != nil {
		before = r.old.GetOwnerReferences()
		if r.Type != Deleted && waits(r.old) && !waits(r.Object) {
			c.waited[r.identity()] = c.now
		}
	}
	if r.Type != Deleted {
		now = r.Object.GetOwnerReferences()
	}
	for _, ref := range before {
		if !slices.ContainsFunc(now, func(kept metav1.OwnerReference) bool { return kept.UID == ref.UID && kept.Kind == ref.Kind }) {
			delete(c.dependents[identity{ref.Kind, ref.UID}], r.identity())
		}
	}
	for _, ref := range now {
		owner := identity{ref.Kind, ref.UID}
		d := c.dependents[owner][r.identity()]
		if d == nil {
			d = &dependent{since: c.now}
			put2(c.dependents, owner, r.identity(), d)
		}
		d.Object = r.Object
		blocks := slices.ContainsFunc(now, func(other metav1.OwnerReference) bool {
			return other.UID == ref.UID && other.Kind == ref.Kind && other.BlockOwnerDeletion != nil && *other.BlockOwnerDeletion
		})
		switch {
		case !blocks:
			d.blocks = time.Time{}
		case d.blocks.IsZero():
			d.blocks = c.now
		}
	}
}

// refersTo reports whether one of an object's references is to that owner: not only by its uid (GC-53, GC-54).
func refersTo(o, owner Object) bool {
	near := owner.GetNamespace() == "" || owner.GetNamespace() == o.GetNamespace()
	return near && slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.GetUID() && ref.Kind == kindOf(owner) && ref.Name == owner.GetName()
	})
}

// waits reports whether an object is being deleted and waits for its dependents to be deleted (GC-33).
func waits(o Object) bool {
	return o.GetDeletionTimestamp() != nil && has(o, metav1.FinalizerDeleteDependents)
}

func has(o Object, finalizer string) bool { return slices.Contains(o.GetFinalizers(), finalizer) }
