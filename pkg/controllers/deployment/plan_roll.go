package deployment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// roll moves replicas from the old ReplicaSets to the new one, as far as surge and unavailability allow: up first,
// then down, and when nothing moves any more the history is cleaned up (DEP-41..46).
func (r *rollout) roll() {
	taken, leaving := r.occupied()
	if r.new == nil {
		r.create(grown(0, taken, r.replicas, r.surge))
		return
	}
	if size := grown(r.new.size, taken, r.replicas, r.surge); size < r.new.size || leaving == 0 && size > r.new.size ||
		r.fills(size-r.new.size) {
		r.resize(r.new, size)
		return
	}
	down, lowered := shrunk(holdings(r.old), r.new.holding(), r.replicas, r.unavailable)
	if lowered > 0 {
		if wait := r.linger(lowered); wait > 0 {
			r.say("%d old pods can go, waits a moment for more", lowered)
			r.requeueAfter(wait)
			return
		}
		for i, s := range r.old {
			if down[i] != s.size {
				r.resize(s, down[i])
			}
		}
		return
	}
	r.await()
	r.tidy()
}

// bounds resolves maxSurge and maxUnavailable (DEP-29..31). What cannot be read counts as zero; problem says so.
func bounds(d *appsv1.Deployment, replicas int64) (surge, unavailable int64, problem string) {
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return 0, 0, ""
	}
	var bad []string
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil {
		var ok bool
		if surge, ok = resolve(ru.MaxSurge, replicas, 99); !ok {
			bad = append(bad, fmt.Sprintf("maxSurge %q counts as 0", ru.MaxSurge.String()))
		}
		if unavailable, ok = resolve(ru.MaxUnavailable, replicas, 0); !ok {
			bad = append(bad, fmt.Sprintf("maxUnavailable %q counts as 0", ru.MaxUnavailable.String()))
		}
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1 // otherwise nothing could ever move (DEP-30)
	}
	return surge, min(unavailable, replicas), strings.Join(bad, ", ")
}

// resolve reads a number or a percentage of replicas; round is what is added to the hundredths before they are cut
// off.
func resolve(v *intstr.IntOrString, replicas, round int64) (n int64, ok bool) {
	switch {
	case v == nil:
		return 0, true
	case v.Type == intstr.Int:
		return max(0, int64(v.IntVal)), v.IntVal >= 0
	}
	text, percent := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.ParseInt(text, 10, 32)
	if !percent || err != nil || n < 0 {
		return 0, false
	}
	return min((n*replicas+round)/100, math.MaxInt32), true
}

// occupied is what counts against the surge: each ReplicaSet's size, or its pods while those are more. leaving is how
// many pods are still to be deleted because their ReplicaSet was lowered: the room that they make is used when they are
// gone, in full batches, so that there are never more pods than replicas + surge (terminating ones aside). One whose
// pods cannot be deleted is not waited for; the pods of one that is being deleted are the garbage collector's.
func (r *rollout) occupied() (taken, leaving int64) {
	for _, s := range r.sets() {
		pods := int64(s.counts.Active)
		if s.DeletionTimestamp != nil {
			pods = 0
		}
		taken += max(s.size, pods)
		if s != r.new && pods > s.size && !hasReplicaFailure(s.ReplicaSet) {
			leaving += pods - s.size
		}
	}
	return taken, leaving
}

// hasReplicaFailure reports whether the ReplicaSet says that it cannot create or delete pods.
func hasReplicaFailure(rs *appsv1.ReplicaSet) bool {
	return slices.ContainsFunc(rs.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	})
}

// holding is a ReplicaSet in the arithmetic of a rolling update.
type holding struct{ size, available int64 }

// holding returns how many pods a ReplicaSet should have and how many are available.
func (s *set) holding() holding { return holding{s.size, s.available} }

// holdings returns the same for several, in their order.
func holdings(sets []*set) []holding {
	all := make([]holding, len(sets))
	for i, s := range sets {
		all[i] = s.holding()
	}
	return all
}

// grown is the size of the new ReplicaSet after the first step: as large as replicas, if there is room below
// replicas + surge (DEP-41).
func grown(size, total, replicas, surge int64) int64 {
	if size >= replicas {
		return replicas
	}
	return size + max(0, min(replicas+surge-total, replicas-size))
}

// shrunk are the sizes of the old ReplicaSets, oldest first, after the second step, and by how much they are lowered in
// all (DEP-42..44). First go pods that are not available, which costs nothing; then as many available ones as there are
// more than needed:
//
//	3 replicas, none may be unavailable; old 3 of which 2 are available, new 1 that is available
//	at most 4 - 3 - 0 = 1 may go, and the old one that is not available does; 3 - 3 = 0 available ones can be spared
func shrunk(old []holding, latest holding, replicas, unavailable int64) (down []int64, lowered int64) {
	needed := replicas - unavailable
	total, available := latest.size, latest.available
	for _, h := range old {
		down = append(down, h.size)
		total += h.size
		available += h.available
	}
	// The new pods that are not available yet are counted on, so they do not make room.
	most := total - needed - (latest.size - latest.available)
	if most <= 0 {
		return down, 0
	}
	lower := func(i int, by int64) int64 {
		down[i] -= by
		lowered += by
		return by
	}
	for i, h := range old {
		most -= lower(i, min(most, h.size-h.available))
	}
	spare := max(0, available-needed)
	for i := range old {
		spare -= lower(i, min(spare, down[i]))
	}
	return down, lowered
}

// A large rollout moves in batches: each batch costs two writes, whatever its size. The smallest batch that goes at
// once is one eighth of what may be in motion, so up to 15 pods in motion every pod is moved by itself.
const (
	batchShare = 8
	lingerTime = time.Second
)

// fills reports whether so many pods are a full batch of a large rollout. A smaller one has no batches: what makes room
// is waited for as a whole, and what can be deleted is deleted at once.
func (r *rollout) fills(pods int64) bool {
	return r.large() && pods >= (r.surge+r.unavailable)/batchShare
}

// large reports whether a rollout moves in batches.
func (r *rollout) large() bool { return r.surge+r.unavailable >= 2*batchShare }

// linger returns how long to wait for more old pods to be dispensable: never longer than lingerTime after the first
// new one became available that is not made use of. It is zero if a batch is full, or the last. Otherwise there are
// always more new pods about to become available: were there none, all that is in motion could go.
func (r *rollout) linger(lowered int64) time.Duration {
	last := lowered == sizes(r.old)
	ailing := slices.ContainsFunc(r.old, func(s *set) bool { return s.available < s.size })
	if r.fills(lowered) || !r.large() || last || ailing {
		return 0
	}
	since := r.new.availableSince(r.now)
	if int64(len(since)) < lowered {
		return 0
	}
	slices.SortFunc(since, func(a, b time.Time) int { return b.Compare(a) })
	// The latest ones are those that no old pod has gone for. Clocks differ: a time to come is as good as long past.
	passed := r.now.Sub(since[lowered-1])
	if passed < 0 || passed >= lingerTime {
		return 0
	}
	return lingerTime - passed
}

// availableSince reports since when each available pod is.
func (s *set) availableSince(now time.Time) []time.Time {
	var times []time.Time
	for _, p := range s.pods {
		if podutil.Active(p) && podutil.Available(p, s.Spec.MinReadySeconds, now) {
			ready := podutil.ReadyCondition(p).LastTransitionTime
			times = append(times, ready.Add(workloads.Seconds(s.Spec.MinReadySeconds)))
		}
	}
	return times
}

// await says what the rollout waits for.
func (r *rollout) await() {
	old, missing := sizes(r.old), r.new.size-r.new.available
	_, leaving := r.occupied()
	switch {
	case leaving > 0:
		r.say("waiting for %d old pods to be deleted", leaving)
	case old > 0 && missing > 0:
		r.say("%d replicas are still old; waiting for %d of %d pods of %s to become available", old, missing,
			r.new.size, r.new.Name)
	case old > 0:
		r.say("%d replicas are still old; waiting for pods to become available", old)
	case missing > 0:
		r.say("waiting for %d of %d pods of %s to become available", missing, r.new.size, r.new.Name)
	default:
		r.say("all %d replicas are of %s and available", r.new.size, r.new.Name)
	}
}
