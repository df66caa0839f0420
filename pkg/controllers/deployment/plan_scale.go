package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// scalingEvent reports whether replicas has changed since a ReplicaSet with pods was last sized (DEP-34).
func (r *rollout) scalingEvent() bool {
	return slices.ContainsFunc(r.active(), func(s *set) bool {
		desired, ok := count(s.ReplicaSet, desiredAnnotation)
		return ok && desired != r.replicas
	})
}

// scalable reports whether scaling has something to do. Where it has not (Recreate with several active ReplicaSets),
// the rollout continues: it would wait for ever for an annotation that nobody refreshes.
func (r *rollout) scalable() bool {
	return len(r.active()) <= 1 || r.saturated() || r.gradual()
}

// scale brings the ReplicaSets from the replicas that they were sized for to those of today, without moving the
// rollout on (DEP-35..39).
func (r *rollout) scale() {
	active := r.active()
	switch {
	case len(active) <= 1:
		if only := r.activeOrLatest(); only != nil && (only.size > 0 || r.replicas > 0) && !r.mustWait(only) {
			r.resize(only, r.replicas)
		}
	case r.saturated():
		r.note(r.new)
		for _, s := range r.old {
			if s.size > 0 {
				r.resize(s, 0)
			}
		}
	case r.gradual():
		r.scaleInProportion(active)
	}
}

// mustWait reports whether the ReplicaSet may not grow yet, because under Recreate the pods of others have to go
// first. It matters to a Deployment that is paused, or scaled, in the middle of that, also when somebody else has
// given the ReplicaSet a size already (DEP-48).
func (r *rollout) mustWait(s *set) bool {
	if s.size >= r.replicas || r.d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return false
	}
	name := r.remains(s)
	if name != "" {
		r.say("waiting for the last pods of %s to be gone", name)
	}
	return name != ""
}

// active are the ReplicaSets that should have pods.
func (r *rollout) active() []*set {
	var active []*set
	for _, s := range r.sets() {
		if s.size > 0 {
			active = append(active, s)
		}
	}
	return active
}

// activeOrLatest returns the one active ReplicaSet; if there is none the new one, else the newest old one (DEP-35).
func (r *rollout) activeOrLatest() *set {
	if active := r.active(); len(active) > 0 {
		return active[0]
	}
	if r.new == nil && len(r.old) > 0 {
		return r.old[len(r.old)-1]
	}
	return r.new
}

// saturated reports whether the new ReplicaSet alone does the job: the old ones can go at once (DEP-36).
func (r *rollout) saturated() bool {
	if r.new == nil {
		return false
	}
	desired, ok := count(r.new.ReplicaSet, desiredAnnotation)
	return ok && desired == r.replicas && r.new.size == r.replicas && r.new.available == r.replicas
}

// gradual reports whether the strategy moves replicas bit by bit.
func (r *rollout) gradual() bool {
	return r.d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// scaleInProportion lets each active ReplicaSet grow or shrink by its share, so that a rollout under way keeps its
// risk: 8 old and 5 new of 10 replicas become 12 and 7 of 15 (DEP-37..39, DEP-85). Shares know nothing of availability,
// so pods that are not available then go instead of available ones.
func (r *rollout) scaleInProportion(active []*set) {
	growing := r.allowed() > r.total()
	slices.SortFunc(active, func(a, b *set) int {
		age := byAge(a.ReplicaSet, b.ReplicaSet)
		if growing {
			age = -age
		}
		return cmp.Or(cmp.Compare(b.size, a.size), age)
	})
	parts := make([]part, len(active))
	for i, s := range active {
		parts[i] = part{size: s.size, max: int64(max(0, r.d.Status.Replicas))}
		if n, ok := count(s.ReplicaSet, maximumAnnotation); ok && n > 0 {
			parts[i].max = n
		}
	}
	target := map[*set]int64{}
	for i, size := range proportional(parts, r.allowed()) {
		target[active[i]] = size
	}
	slices.SortFunc(active, r.byDispensability)
	sizes := make([]int64, len(active))
	for i, s := range active {
		sizes[i] = target[s]
	}
	for i, size := range unavailableFirst(holdings(active), sizes) {
		r.resize(active[i], size)
	}
}

// byDispensability orders ReplicaSets as a rolling update gives them up: old ones, oldest first, then the new one
// (DEP-43).
func (r *rollout) byDispensability(a, b *set) int {
	switch {
	case a == r.new:
		return 1
	case b == r.new:
		return -1
	}
	return byAge(a.ReplicaSet, b.ReplicaSet)
}

// unavailableFirst moves what the sizes take from available pods to pods that are not available, of other ReplicaSets,
// as far as there are any. The sum stays. The ReplicaSets are in the order in which they are to be scaled down.
//
//	6 replicas, one more allowed; old 5 that are available, new 3 that are not: shares of 4 and 3 become 5 and 2
func unavailableFirst(sets []holding, sizes []int64) []int64 {
	var lost, kept int64 // available pods that would go, and others that would stay or come
	for i, h := range sets {
		lost += max(0, h.available-sizes[i])
		kept += max(0, sizes[i]-h.available)
	}
	moved := slices.Clone(sizes)
	take := min(lost, kept)
	give := take
	for i, h := range sets {
		n := min(take, max(0, sizes[i]-h.available))
		moved[i], take = moved[i]-n, take-n
	}
	for i, h := range slices.Backward(sets) {
		n := min(give, max(0, h.available-sizes[i]))
		moved[i], give = moved[i]+n, give-n
	}
	return moved
}

// allowed is how many pods there may be at most.
func (r *rollout) allowed() int64 {
	if r.replicas == 0 {
		return 0
	}
	return r.replicas + r.surge
}

// part is a ReplicaSet in proportional scaling: its size, and the most pods that were allowed when it got that size.
type part struct{ size, max int64 }

// proportional returns the sizes of the parts that add up to allowed, as far as they can: each gets the share of
// allowed that it had of its previous maximum, and the first also takes what rounding leaves (DEP-38, DEP-39).
func proportional(parts []part, allowed int64) []int64 {
	sizes := make([]int64, len(parts))
	toAdd := allowed
	for i, p := range parts {
		sizes[i] = p.size
		toAdd -= p.size
	}
	left := toAdd
	for i, p := range parts {
		if left == 0 {
			return sizes
		}
		share := p.share(allowed)
		if toAdd > 0 {
			share = min(share, left)
		} else {
			share = min(0, max(share, left)) // none grows while there are too many
		}
		sizes[i] += share
		left -= share
	}
	if len(sizes) > 0 {
		sizes[0] = max(0, sizes[0]+left)
	}
	return sizes
}

// share is by how much the part grows with its maximum, rounded half away from zero. Neither factor exceeds 2^32, nor
// size 2^31, so the product fits.
func (p part) share(allowed int64) int64 {
	switch {
	case allowed == 0:
		return -p.size
	case p.max <= 0:
		return 0
	}
	whole, rest := p.size*allowed/p.max, p.size*allowed%p.max
	if 2*rest >= p.max {
		whole++
	}
	return whole - p.size
}

// note records on a ReplicaSet which replicas its size was made for (DEP-33).
func (r *rollout) note(s *set) {
	desired, maximum := r.sizing()
	s.annotate(desiredAnnotation, desired)
	s.annotate(maximumAnnotation, maximum)
}

// sizing returns the two annotations of a ReplicaSet that say what its size was made for.
func (r *rollout) sizing() (desired, maximum string) {
	return strconv.FormatInt(r.replicas, 10), strconv.FormatInt(int64(fit(r.replicas+r.surge)), 10)
}

// count reads an annotation that this controller wrote, unless somebody else did (DEP-34).
func count(rs *appsv1.ReplicaSet, annotation string) (n int64, ok bool) {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return n, err == nil
}

// fit cuts a number to what the API has room for.
func fit(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
