package oracle

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// S9: the manager never lowers the revision annotation of a ReplicaSet, nor that of a Deployment whose ReplicaSets nobody
// else has touched (DEP-11, DEP-12). It removes only ReplicaSets that are old and empty, and only while there are more old
// ones than revisionHistoryLimit; when a Deployment is complete at the end, there are no more (DEP-62, DEP-63). That a
// rollback reuses a ReplicaSet is S7.
func S9() Oracle {
	return Oracle{"S9", "revisions grow, history is kept as asked", func(j *judge) hooks {
		touched := map[string]bool{} // the Deployments, by uid, whose revision others had a hand in
		return hooks{
			before: func(r *revision) {
				switch {
				case r.kind == ReplicaSet && r.manager && r.goes():
					j.cleanUp(r)
				case r.kind == ReplicaSet && !r.manager && r.old != nil: // whoever takes a set away has a hand in it, too
					touched[string(j.sets[r.uid].controller)] = true
				}
			},
			after: func(r *revision) {
				switch {
				case r.kind == ReplicaSet && !r.manager:
					touched[string(j.sets[r.uid].controller)] = true
				case r.kind == Deployment && !r.manager && r.old != nil && r.old.GetAnnotations()[revisionAnnotation] != r.Object.GetAnnotations()[revisionAnnotation]:
					touched[string(r.uid)] = true
				case r.kind == ReplicaSet, r.kind == Deployment && !touched[string(r.uid)]:
					j.lowered(r)
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

func (j *judge) lowered(r *revision) {
	if !r.manager || r.old == nil || r.Type == Deleted {
		return
	}
	was, ok := revisionOf(r.old)
	if !ok {
		return
	}
	j.judges(false)
	if is, ok := revisionOf(r.Object); !ok || is < was {
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
	j.judges(false)
	d := j.alive(s.controller)
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
func (w *world) current(d *deployment) *set { return w.with(d, d.wishes[len(d.wishes)-1].template) }

// with is a Deployment's ReplicaSet with a template: the oldest, then by name (DEP-10); nil if there is none.
func (w *world) with(d *deployment, template string) (best *set) {
	for _, s := range w.setsOf[d.UID] {
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

// S10: in what the manager writes, observedGeneration does not decrease and is at most generation, and of the counts
// available <= ready <= replicas, updated and fully labelled <= replicas, none negative (RS-41..46, RS-51, DEP-64).
func S10() Oracle {
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
		j.report(r, nil, "of %d replicas %d are ready, %d available, %d updated or fully labelled (and the rest: %d)", replicas, ready, available, part, rest)
	}
}
