package oracle

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// raise reports whether a revision is the manager's creation or enlargement of a ReplicaSet, and of which one.
func (j *judge) raise(r *revision) (s *set, d *deployment, ok bool) {
	if r.kind != ReplicaSet || !r.manager || r.Type == Deleted {
		return nil, nil, false
	}
	s = j.sets[r.uid]
	d = j.alive(s.controller)
	before := int32(0)
	if old, ok := r.old.(*appsv1.ReplicaSet); ok {
		before = ptr.Deref(old.Spec.Replicas, 1)
	}
	return s, d, d != nil && s.size() > before
}

// NoSurgeBeyondMaxSurge is S5: whenever the manager raises a ReplicaSet of a Deployment, the sizes of all its ReplicaSets together are at
// most replicas + maxSurge, the most of the generations since the observed one (DEP-31, DEP-37, DEP-41; upstream's rolling invariant, on
// sizes instead of statuses). A lower bound that was just asked for may be exceeded by what exists already.
func NoSurgeBeyondMaxSurge() Oracle {
	return Oracle{"S5", "no ReplicaSet is raised above replicas + maxSurge", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			if s, d, ok := j.raise(r); ok {
				sum := int32(0)
				for _, each := range j.setsOf[d.UID] {
					if each.deleting.IsZero() {
						sum += each.size()
					}
				}
				all, most := sum, d.fence().most
				for _, gain := range d.gained.since(j.lag(r, ReplicaSet)) {
					sum -= gain.count
				}
				if j.judges(all > most && sum <= most); sum > most {
					j.report(r, j.family(d), "raised to %d, so the sizes of %s are %d in all, more than %d", s.size(), d.Name, sum, most)
				}
			}
			if j.o.Surge != SurgeSizes {
				j.countSurge(r)
			}
		}}
	}}
}

// countSurge is S5 for pods, see Options.Surge.
func (j *judge) countSurge(r *revision) {
	p := j.pods[r.key]
	if r.kind != Pod || !r.manager || r.old != nil || p == nil || !p.counted {
		return
	}
	s := j.sets[p.controller]
	d := j.alive(s.controller)
	if d == nil {
		return
	}
	n, most := 0, int32(0)
	for _, o := range s.open() {
		most = max(most, o.spec.most)
	}
	for _, each := range j.setsOf[d.UID] {
		n -= len(each.gained.since(j.lag(r, Pod)))
		if j.o.Surge == SurgeAll {
			n += each.present
		} else {
			n += each.active
		}
	}
	if n > int(most) {
		j.report(r, j.family(d), "%s now has %d pods, more than %d", d.Name, n, most)
	}
}

// family names a Deployment and its ReplicaSets.
func (w *world) family(d *deployment) []string {
	all := []string{Deployment + "/" + keyOf(d)}
	for _, s := range w.setsOf[d.UID] {
		all = append(all, ReplicaSet+"/"+keyOf(s))
	}
	return all
}

// DeletionsLeaveEnoughAvailable is S6: a deletion by the manager leaves a rolling Deployment with replicas - maxUnavailable pods that are
// truly available, by their own conditions and not by a status (DEP-31, DEP-42..44; upstream's rolling invariant). It binds to what the
// Deployment wanted when the ReplicaSet's size was decided, or to what it wants now if that is less, and pods that the environment took
// since shortly before that count as available. A pod that has only just become ready may be deleted as one that is not, and as many as
// came to the ReplicaSet from outside since then. Pods that another controller deletes, see others, count as those that the environment
// took. Proportional scaling (DEP-37) shares out sizes without asking for availability, and is
// exempt, and so are sizes that another Deployment had decided before the present one adopted the ReplicaSet. So is the deletion of as many
// pods as have become ready since the size was decided for them, as nobody could know yet.
func DeletionsLeaveEnoughAvailable() Oracle {
	return Oracle{"S6", "deletions leave enough pods available", func(j *judge) hooks {
		byOthers := map[types.UID]map[types.UID]time.Time{} // available pods of Deployments that another controller has deleted
		return hooks{before: func(r *revision) {
			p := j.pods[r.key]
			if r.kind != Pod || !r.manager || !r.goes() || p == nil || p.UID != r.uid || !p.counted {
				return
			}
			s := j.sets[p.controller]
			d := j.alive(s.controller)
			if d == nil || !available(p.Pod, s.leastReady(), j.now) {
				return
			}
			if j.recent(r, p.ready, Pod) {
				j.judges(true)
				return
			}
			if j.others(p) {
				if byOthers[d.UID] == nil {
					byOthers[d.UID] = map[types.UID]time.Time{}
				}
				byOthers[d.UID][p.UID] = j.now
				j.judges(true)
				return
			}
			least, size := d.fence().least, s.open()[0].replicas
			since := j.lag(r, Pod, ReplicaSet)
			// seen is up to when the manager knew of pods as it deleted, and as the size was lowered below the number of pods.
			seen := since
			for _, o := range s.open() {
				if !o.byManager || o.scaling || o.owner != s.controller {
					j.judges(true)
					return
				}
				least, size = min(least, o.spec.least), min(size, o.replicas)
				decided := j.lagAt(o.when, o.author, Pod, ReplicaSet)
				if decided.Before(since) {
					since = decided
				}
				if int(o.replicas) < s.active && decided.After(seen) {
					seen = decided
				}
			}
			if least <= 0 {
				return
			}
			arrived := j.arrived(s, since)
			becameReady := j.becameReady(s, seen)
			excused := !d.disturbed.IsZero() && !d.disturbed.Before(since) ||
				arrived > 0 && s.active-arrived <= int(size) || becameReady > 0 && s.active-becameReady <= int(size)
			if j.judges(excused); excused {
				return
			}
			if n := j.availableOf(d) - 1 + j.unavailableSince(d, since, byOthers[d.UID]); n < int(least) {
				j.report(r, append(j.family(d), j.related(s)...), "deleted, so %d pods of %s are available, fewer than %d", n, d.Name,
					least)
			}
		}}
	}}
}

// availableOf counts the available pods of a Deployment.
func (w *world) availableOf(d *deployment) (n int) {
	for _, s := range w.setsOf[d.UID] {
		least := min(s.leastReady(), d.leastReady())
		for _, p := range w.podsOf[s.UID] {
			if p.counted && available(p.Pod, least, w.now) {
				n++
			}
		}
	}
	return n
}

// unavailableSince counts the pods that the environment made unavailable since a time, and that still are, and those that another
// controller has deleted since then.
func (w *world) unavailableSince(d *deployment, since time.Time, byOthers map[types.UID]time.Time) int {
	seen := map[types.UID]bool{}
	for uid, when := range byOthers {
		if !when.Before(since) {
			seen[uid] = true
		}
	}
	for _, s := range w.setsOf[d.UID] {
		for _, l := range s.lost.since(since) {
			if p := w.podsOf[s.UID][l.uid]; l.ready && (p == nil || !p.counted || !ready(p.Pod)) {
				seen[l.uid] = true
			}
		}
	}
	return len(seen)
}

// OneReplicaSetPerTemplate is S7: the manager makes at most one ReplicaSet for a Deployment and a template; so a rollback takes the one
// that exists (DEP-10, DEP-25). status.collisionCount grows by one at a time, and only when a ReplicaSet stands in the way that is not the
// Deployment's own for that template. One can stand in the way only once: with another count the name is another one.
func OneReplicaSetPerTemplate() Oracle {
	return Oracle{"S7", "one ReplicaSet for each template", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			switch {
			case r.kind == ReplicaSet && r.manager && r.old == nil && r.Type == Added:
				j.twins(r)
			case r.kind == Deployment && r.manager && r.old != nil:
				j.collision(r)
			case r.kind == Deployment && r.old != nil && collisions(r.old) != collisions(r.Object):
				d := j.deployments[r.uid]
				d.collisions, d.obstacles = 0, map[types.UID]bool{} // names come again
			}
		}}
	}}
}

func (j *judge) twins(r *revision) {
	s, excused := j.sets[r.uid], false
	for _, other := range j.setsOf[s.controller] {
		if s.controller == "" || other == s || other.template != s.template || !other.deleting.IsZero() {
			continue
		}
		if j.recent(r, other.changed, ReplicaSet) {
			excused = true // a user has just made it equal
			continue
		}
		j.judges(false)
		j.report(r, append(j.related(s), ReplicaSet+"/"+keyOf(other)), "created though %s, of the same Deployment, has the same template",
			other.Name)
		return
	}
	j.judges(excused)
}

func collisions(d Object) int32 { return ptr.Deref(d.(*appsv1.Deployment).Status.CollisionCount, 0) }

func (j *judge) collision(r *revision) {
	d := j.deployments[r.uid]
	was, is := collisions(r.old), collisions(r.Object)
	if was == is {
		return
	}
	j.judges(false)
	if is != was+1 {
		j.report(r, nil, "collisionCount went from %d to %d", was, is)
		return
	}
	for _, s := range j.sets {
		if s.Namespace != d.Namespace || !strings.HasPrefix(s.Name, d.Name+"-") || s.gone != nil && s.gone.at.Before(j.lag(r, ReplicaSet)) {
			continue
		}
		if s.controller != d.UID || s.gone != nil || !s.born.manager || s.template != s.asCreated || s.altered {
			d.obstacles[s.UID] = true
		}
	}
	if d.collisions++; d.collisions > len(d.obstacles) {
		j.report(r, j.family(d), "collisionCount went from %d to %d, but no ReplicaSet stands in the way that did not before", was, is)
	}
}

// RecreateWaitsForOldPods is S8: Recreate: the manager raises a ReplicaSet only when no pod of another ReplicaSet of the Deployment is left
// that has not finished, and then no such pod appears (DEP-48). It binds when all open generations ask for Recreate. A ReplicaSet that has
// a size, from before the strategy was Recreate, may be scaled (DEP-35). One of size 0 may not, whether paused or not: DEP-35 would allow
// that, and so the original fails it, but whoever asks for Recreate relies on old and new never meeting. A pod may still come for a
// ReplicaSet that the environment has just deleted: it was asked for before, and goes with it. From when the environment raises a size, old
// and new are mixed by its will, until only one of the ReplicaSets has pods. Orphans do not count that a ReplicaSet took in when the other
// had its size already, or only just before: to whom it was given nobody told of them, and they bring an old pod back beside the new ones.
func RecreateWaitsForOldPods() Oracle {
	return Oracle{"S8", "Recreate: no new pod before the last old one is gone", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			if s, d, ok := j.raise(r); ok && s.orders[len(s.orders)-1].spec.recreate {
				j.judges(false)
				if other := j.standing(s, d, j.lag(r, Pod, ReplicaSet)); other != nil {
					j.report(r, append(j.family(d), j.related(s)...), "raised to %d while pods of %s are left: %d", s.size(), other.Name,
						other.present)
				}
				return
			}
			p := j.pods[r.key]
			if r.kind != Pod || !r.manager || r.old != nil || p == nil || !p.counted {
				return
			}
			s := j.sets[p.controller]
			d := j.alive(s.controller)
			if d == nil || !d.fence().recreate {
				return
			}
			foreign := func(o order) bool { return !o.byManager || !o.spec.recreate }
			excused := !d.raised.IsZero() || j.justDeleted(r, s) || slices.ContainsFunc(s.open(), foreign)
			if j.judges(excused); excused {
				return
			}
			since, first := j.lag(r, Pod, ReplicaSet), s.open()[0]
			if decided := j.lagAt(first.when, first.author, Pod, ReplicaSet); decided.Before(since) {
				since = decided
			}
			if other := j.standing(s, d, since); other != nil {
				j.report(r, append(j.family(d), j.related(s)...), "created while pods of %s are left: %d", other.Name, other.present)
			}
		}}
	}}
}

// standing is another ReplicaSet of the Deployment that has pods, others than it was given or has adopted since a time. One
// that was itself adopted since then does not count.
func (j *judge) standing(s *set, d *deployment, since time.Time) *set {
	for _, other := range j.setsOf[d.UID] {
		last := other.orders[len(other.orders)-1]
		if other != s && last.byManager && other.joined.Before(since) && other.present > j.arrived(other, since) {
			return other
		}
	}
	return nil
}

// justDeleted reports whether the environment has just deleted the ReplicaSet.
func (w *world) justDeleted(r *revision, s *set) bool {
	return w.recent(r, s.deleting, ReplicaSet) || s.gone != nil && !s.gone.manager && w.recent(r, s.gone.at, ReplicaSet)
}

// becameReady counts the pods of a ReplicaSet that have become ready since a time.
func (w *world) becameReady(s *set, since time.Time) (n int) {
	for _, p := range w.podsOf[s.UID] {
		if p.counted && p.ready.After(since) {
			n++
		}
	}
	return n
}

// arrived counts the pods of a ReplicaSet that were made outside of it, came to it since a time, and are left.
func (w *world) arrived(s *set, since time.Time) int {
	left := map[types.UID]bool{}
	for _, all := range []losses{s.gained, s.adopted} {
		for _, gain := range all.since(since) {
			if p := w.podsOf[s.UID][gain.uid]; p != nil && !finished(p.Pod) {
				left[gain.uid] = true
			}
		}
	}
	return len(left)
}
