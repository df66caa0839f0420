package oracle

import (
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// HistoryIsKept is S9: the manager never lowers the revision annotation of a ReplicaSet, nor that of a Deployment (DEP-11, DEP-12), but for
// one
// whose ReplicaSets somebody else has touched, until its revision is again that of its present ReplicaSet and the highest. When the
// history is kept short and the template is changed while the Deployment is paused, all ReplicaSets are old and may go; then the
// numbers go on from the highest of those that are left (DEP-12, DEP-62).
//
// It removes only ReplicaSets that are old and empty, and only while there are more old ones than revisionHistoryLimit; when a
// Deployment is complete at the end, there are no more (DEP-62, DEP-63). That a rollback reuses a ReplicaSet is S7.
func HistoryIsKept() Oracle {
	return Oracle{"S9", "revisions grow, history is kept as asked", func(j *judge) hooks {
		touched := map[types.UID]time.Time{} // when others had a hand in the revision of a Deployment
		return hooks{
			before: func(r *revision) {
				switch {
				case r.kind == ReplicaSet && r.manager && r.deletes():
					j.cleanUp(r)
				case r.kind == ReplicaSet && !r.manager && r.old != nil: // whoever takes a set away has a hand in it, too
					touched[j.sets[r.uid].controller] = j.now
				}
			},
			after: func(r *revision) {
				owner := r.uid
				if r.kind == ReplicaSet {
					owner = j.sets[r.uid].controller
				}
				switch {
				case r.kind == ReplicaSet && !r.manager:
					touched[owner] = j.now
				case r.kind == Deployment && !r.manager && r.old != nil &&
					r.old.GetAnnotations()[revisionAnnotation] != r.Object.GetAnnotations()[revisionAnnotation]:
					touched[owner] = j.now
				case r.kind == ReplicaSet:
					j.lowered(r, false)
				case r.kind == Deployment:
					j.lowered(r, !touched[owner].IsZero() || j.numbered(owner, time.Time{}))
				default:
					return
				}
				if when, ok := touched[owner]; ok && r.manager && j.numbered(owner, when) {
					delete(touched, owner)
				}
			},
			end: func() {
				if j.o.Settled {
					j.leftOver()
				}
			},
		}
	}}
}

// numbered reports whether the revision of a Deployment is that of its present ReplicaSet, and the highest, so that nothing is left
// of what others had done to revisions.
func (j *judge) numbered(uid types.UID, touched time.Time) bool {
	d := j.alive(uid)
	if d == nil || !touched.Before(j.lagAt(j.now, "", ReplicaSet, Deployment)) {
		return false
	}
	current := j.current(d)
	if current == nil {
		return false
	}
	is, ok := revisionOf(d)
	highest, both := revisionOf(current)
	for _, s := range j.setsOf[uid] {
		if n, _ := revisionOf(s); n > highest {
			return false
		}
	}
	return ok && both && is == highest
}

func (j *judge) lowered(r *revision, excused bool) {
	if !r.manager || r.old == nil || r.Type == Deleted {
		return
	}
	was, ok := revisionOf(r.old)
	if !ok {
		return
	}
	is, ok := revisionOf(r.Object)
	goesDown := !ok || is < was
	j.judges(goesDown && excused)
	if goesDown && !excused {
		j.report(r, nil, "revision went from %d to %q", was, r.Object.GetAnnotations()[revisionAnnotation])
	}
}

// limit is how many old ReplicaSets to keep.
func limit(s *appsv1.DeploymentSpec) int {
	if s.RevisionHistoryLimit == nil || *s.RevisionHistoryLimit == math.MaxInt32 {
		return math.MaxInt
	}
	return int(*s.RevisionHistoryLimit)
}

// cleanUp judges the manager's deletion of a ReplicaSet.
func (j *judge) cleanUp(r *revision) {
	s := j.sets[r.uid]
	if s == nil {
		return // the history begins with its end
	}
	d := j.alive(s.controller)
	excused := j.garbage(s)
	if j.judges(excused); excused {
		return
	}
	if d == nil {
		j.report(r, nil, "deleted, and no Deployment that exists owns it")
		return
	}
	for _, o := range s.open() {
		if o.replicas != 0 {
			j.report(r, j.family(d), "deleted while its size is %d", o.replicas)
			return
		}
	}
	if s.Status.Replicas != 0 {
		j.report(r, j.family(d), "deleted while its status says %d replicas", s.Status.Replicas)
		return
	}
	// What the manager may have known of the Deployment decides.
	least, current, tooMany := math.MaxInt, true, false
	for _, w := range d.open() {
		least = min(least, limit(w.spec))
		current = current && w.template == s.template && !j.twin(s)
		tooMany = tooMany || len(j.old(d, j.with(d, w.template))) > limit(w.spec)
	}
	if current {
		j.report(r, j.family(d), "deleted though it is the present one of %s", d.Name)
		return
	}
	if !tooMany && !j.recent(r, d.disturbed, ReplicaSet) {
		j.report(r, j.family(d), "deleted though %s has %d old ones, and keeps %d", d.Name, len(j.old(d, j.current(d))), least)
	}
}

// twin reports whether another ReplicaSet of the same Deployment has the same template.
func (w *world) twin(s *set) bool {
	for _, other := range w.setsOf[s.controller] {
		if other != s && other.template == s.template {
			return true
		}
	}
	return false
}

// current is the ReplicaSet with a Deployment's present template.
func (w *world) current(d *deployment) *set { return w.with(d, d.template()) }

// template is the present one of a Deployment.
func (d *deployment) template() string { return d.wishes[len(d.wishes)-1].template }

// with is a Deployment's ReplicaSet with a template; nil if there is none.
func (w *world) with(d *deployment, template string) *set {
	return oldest(slices.Collect(maps.Values(w.setsOf[d.UID])), template)
}

// oldest is the oldest ReplicaSet with a template, then the first by name (DEP-10); nil if there is none.
func oldest(sets []*set, template string) (best *set) {
	for _, s := range sets {
		if s.template != template {
			continue
		}
		if best == nil || s.CreationTimestamp.Before(&best.CreationTimestamp) ||
			s.CreationTimestamp.Equal(&best.CreationTimestamp) && s.Name < best.Name {
			best = s
		}
	}
	return best
}

// old are a Deployment's ReplicaSets, but for one, that are not being deleted.
func (w *world) old(d *deployment, but *set) (all []*set) {
	for _, s := range w.setsOf[d.UID] {
		if s != but && s.deleting.IsZero() {
			all = append(all, s)
		}
	}
	return all
}

// leftOver judges the history that is there at the end.
func (j *judge) leftOver() {
	for _, d := range j.deployments {
		if d.gone != nil || !d.deleting.IsZero() || j.incomplete(d) != "" {
			continue
		}
		old, fit := j.old(d, j.current(d)), true
		for _, s := range old {
			fit = fit && s.size() == 0 && s.Status.Replicas == 0 && s.Generation <= s.Status.ObservedGeneration
		}
		if most := limit(&d.Spec); fit && len(old) > most {
			j.reportEnd(Deployment, keyOf(d), j.family(d), "complete with %d old ReplicaSets, and keeps %d", len(old), most)
		}
	}
}

// StatusesAreConsistent is S10: in what the manager writes, observedGeneration does not decrease and is at most generation, and of the
// counts available <= ready <= replicas, updated and fully labelled <= replicas, none negative (RS-41..46, RS-51, DEP-64).
func StatusesAreConsistent() Oracle {
	return Oracle{"S10", "statuses are possible", func(j *judge) hooks {
		return hooks{after: func(r *revision) {
			if !r.manager || r.Type == Deleted {
				return
			}
			switch o := r.Object.(type) {
			case *appsv1.ReplicaSet:
				was := int64(0)
				if old, ok := r.old.(*appsv1.ReplicaSet); ok {
					was = old.Status.ObservedGeneration
				}
				j.counts10(r, was, o.Status.ObservedGeneration, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas,
					o.Status.FullyLabeledReplicas, ptr.Deref(o.Status.TerminatingReplicas, 0))
			case *appsv1.Deployment:
				was := int64(0)
				if old, ok := r.old.(*appsv1.Deployment); ok {
					was = old.Status.ObservedGeneration
				}
				j.counts10(r, was, o.Status.ObservedGeneration, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas,
					o.Status.UpdatedReplicas, min(ptr.Deref(o.Status.TerminatingReplicas, 0), o.Status.UnavailableReplicas))
			}
		}}
	}}
}

func (j *judge) counts10(r *revision, was, observed int64, replicas, ready, available, part, rest int32) {
	j.judges(false)
	switch {
	case observed < was:
		j.report(r, nil, "observedGeneration went from %d to %d", was, observed)
	case observed > r.Object.GetGeneration():
		j.report(r, nil, "observedGeneration %d of generation %d", observed, r.Object.GetGeneration())
	case available > ready || ready > replicas || part > replicas || min(available, ready, replicas, part, rest) < 0:
		j.report(r, nil, "of %d replicas %d are ready, %d available, %d updated or fully labelled (and the rest: %d)", replicas, ready,
			available, part, rest)
	}
}
