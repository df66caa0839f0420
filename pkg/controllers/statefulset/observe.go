package statefulset

import (
	"bytes"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// memory is what is remembered of a StatefulSet from one reconcile to the next: the encoding of its template,
// which is expensive, and what was reported and refused. Observe makes it, and remember adds what the plan
// has found out.
type memory struct {
	Generation int64
	Template   *corev1.PodTemplateSpec // as it was observed; it belongs to the cache
	Data       []byte                  // of this template: to encode it is expensive
	Revision   string                  // that it has
	Reported   map[types.UID]bool      // claims whose conflict was reported
	// ordinals of parallel pods of which something was refused, the latest refusal last
	Refused []int
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// caches are what the controller reads.
type caches struct {
	sets      informers.Store[*appsv1.StatefulSet]
	pods      informers.PodCache
	claims    informers.Store[*corev1.PersistentVolumeClaim]
	revisions informers.OwnedStore[*appsv1.ControllerRevision]

	maxUnavailable, byBytes, replaceStuckPods bool
}

// observe finds the StatefulSet, its pods and revisions, those that it may adopt, and the claims of its pods. Nothing
// is read live.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (observation, error) {
	set := k.sets.Get(r.Key.Namespace, r.Key.Name)
	if set == nil {
		return observation{}, nil
	}
	s := snapshot{
		Set:            set,
		Pods:           append(k.pods.OwnedBy(set.Namespace, set.UID), k.pods.OrphansIn(set.Namespace)...),
		Revisions:      append(k.revisions.OwnedBy(set.Namespace, set.UID), k.revisions.OrphansIn(set.Namespace)...),
		Claims:         map[string]*corev1.PersistentVolumeClaim{},
		Named:          map[string]*corev1.Pod{},
		MaxUnavailable: k.maxUnavailable, ByBytes: k.byBytes, ReplaceStuckPods: k.replaceStuckPods,
	}
	var before memory
	if r.Memory != nil {
		before = *r.Memory
	}
	var err error
	if s.Data, err = dataOf(set, before); err != nil {
		return observation{}, err
	}
	s.Known = known(set, s.Data, before)
	s.Reported, s.Refused = before.Reported, before.Refused
	s.Taken = k.taken(set, s.Data)
	after := memory{Generation: set.Generation, Template: &set.Spec.Template, Data: s.Data, Reported: s.Reported}
	k.lookUp(s)
	return observation{Exists: true, Snapshot: s, Memory: &after}, nil
}

// dataOf returns the data of the present template. That the generation is the same does not show that the template
// is: an API server that has been upgraded may have added defaults (STS-34).
func dataOf(set *appsv1.StatefulSet, before memory) ([]byte, error) {
	if before.Template != nil && before.Generation == set.Generation &&
		equality.Semantic.DeepEqual(before.Template, &set.Spec.Template) {
		return before.Data, nil
	}
	return history.Data(&set.Spec.Template)
}

// known returns the name of the revision that a template has which nobody has changed since a revision was found for
// it: neither its encoding has changed, nor the generation of the set (STS-34).
func known(set *appsv1.StatefulSet, data []byte, before memory) string {
	switch {
	case before.Revision != "" && (before.Generation == set.Generation || bytes.Equal(before.Data, data)):
		return before.Revision
	case set.Status.ObservedGeneration == set.Generation:
		return set.Status.UpdateRevision
	}
	return ""
}

// taken returns the revisions that have the names of a new one, up to the first with the same data.
func (k *caches) taken(set *appsv1.StatefulSet, data []byte) map[string]*appsv1.ControllerRevision {
	found := map[string]*appsv1.ControllerRevision{}
	for collisions := collisionsOf(set); ; collisions++ {
		name, _ := revisionName(set, data, collisions)
		c := k.revisions.Get(set.Namespace, name)
		if c == nil || found[name] != nil {
			return found
		}
		found[name] = c
		if history.Equal(c, data) {
			return found
		}
	}
}

// remember is what was seen, the revision that the template turned out to have, and what was refused.
func remember(now time.Time, s snapshot, d decision, seen *memory, did, _ plan.Outcome) (*memory, bool) {
	if d.invalid != nil {
		return seen, true
	}
	after := *seen
	after.Revision = d.update.Name
	if did.Err == nil && !did.Stopped { // else the events may not have been recorded
		after.Reported = d.told
	}
	if !ordered(s.Set) {
		after.Refused = resume(now, s, d).refusals(did)
	}
	return &after, true
}

// lookUp finds the claims of the pods that are there, and for the missing ordinals that one reconcile may create
// their claims and the pods that have their names. Those of which all claims are there may turn out to be blocked, so
// they do not count; nor do those whose name is taken. So no more ordinals are looked at than there are pods and
// claims, and a few.
func (k *caches) lookUp(s snapshot) {
	members := map[int]bool{}
	for _, p := range s.Pods {
		if s.named(p) {
			ordinal := ordinalOf(p)
			members[ordinal] = true
			k.claimsOf(s, ordinal)
			s.Named[p.Name] = p
		}
	}
	most := burst
	if ordered(s.Set) {
		most = 1
	}
	for ordinal, free := start(s.Set), 0; ordinal < end(s.Set) && free < most; ordinal++ {
		if members[ordinal] {
			continue
		}
		name := podName(s.Set, ordinal)
		other := k.pods.Get(s.Set.Namespace, name)
		if other != nil {
			s.Named[name] = other
		}
		if claims := k.claimsOf(s, ordinal); other == nil &&
			(claims == 0 || claims < len(s.Set.Spec.VolumeClaimTemplates)) {
			free++
		}
	}
}

// claimsOf finds the claims of an ordinal, and returns how many there are.
func (k *caches) claimsOf(s snapshot, ordinal int) (found int) {
	for i := range s.Set.Spec.VolumeClaimTemplates {
		name := claimName(s.Set, &s.Set.Spec.VolumeClaimTemplates[i], ordinal)
		if claim := k.claims.Get(s.Set.Namespace, name); claim != nil {
			s.Claims[name] = claim
			found++
		}
	}
	return found
}
