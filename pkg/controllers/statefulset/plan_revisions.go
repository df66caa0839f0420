package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// hashLabel is the label of a revision with its hash (STS-30).
	hashLabel = "controller.kubernetes.io/hash"
	// longestSetName is how much of the set's name is in the names of its revisions (STS-30).
	longestSetName = 223
)

// revisionName is the name of a revision with this data, and its hash (STS-30, STS-31).
func revisionName(set *appsv1.StatefulSet, data []byte, collisions int32) (name, hash string) {
	hash = history.Hash(data, collisions)
	return history.Name(set.Name[:min(len(set.Name), longestSetName)], hash), hash
}

// revisions are the update revision and the current revision of a set.
type revisions struct {
	update     *appsv1.ControllerRevision // of the present template
	current    *appsv1.ControllerRevision // of the pods that are not to be updated
	steps      []plan.Step                // create or raise the update revision
	collisions int32                      // names that turned out to be taken
}

// findRevisions decides which revision the present template has: the newest if it is the same, an older one that gets
// a new number, or a new one (STS-33..35).
func (r *rollout) findRevisions() (found revisions, err error) {
	own := history.Sorted(r.Revisions)
	equal := func(c *appsv1.ControllerRevision) bool { return history.Equal(c, r.Data) }
	found.collisions = collisionsOf(r.Set)
	switch at, newest := lastIndex(own, equal), len(own)-1; {
	case newest >= 0 && (at == newest || !r.ByBytes && r.same(own[newest])):
		found.update = own[newest]
	case at >= 0:
		found.update = history.Numbered(own[at], history.Next(own))
		found.steps = []plan.Step{plan.Change{Old: own[at], New: found.update, Why: "back to an earlier template"}}
		r.say("return to revision %s", found.update.Name)
	case r.Set.DeletionTimestamp != nil: // a new template gets no revision any more
		found.update = &appsv1.ControllerRevision{}
		found.update.Name = r.Set.Status.UpdateRevision
	default:
		if err := r.newRevision(&found, history.Next(own)); err != nil {
			return found, err
		}
	}
	found.current = found.update
	for _, c := range own {
		if c.Name == r.Set.Status.CurrentRevision && c.Name != found.update.Name {
			found.current = c
		}
	}
	return found, nil
}

// same reports whether a revision keeps the present template, in whatever encoding. After an upgrade, the server may
// also have defaults for fields that the revision lacks: then it is known by the status, or from an earlier reconcile
// (STS-34).
func (r *rollout) same(c *appsv1.ControllerRevision) bool {
	return c.Name == r.Known || history.Same(c, &r.Set.Spec.Template)
}

// lastIndex returns the index of the last element that satisfies f, -1 if there is none.
func lastIndex[T any](all []T, f func(T) bool) int {
	for i, v := range slices.Backward(all) {
		if f(v) {
			return i
		}
	}
	return -1
}

// newRevision makes a revision of the present template, under a name that is not taken. Under a taken name, a
// revision with the same data will do (STS-31).
func (r *rollout) newRevision(found *revisions, number int64) error {
	made, err := history.New(r.Set, setKind(), &r.Set.Spec.Template, number)
	if err != nil {
		return err
	}
	for ; ; found.collisions++ {
		made.Name, made.Labels[hashLabel] = revisionName(r.Set, r.Data, found.collisions)
		taken := r.Taken[made.Name]
		if taken == nil {
			break
		}
		if history.Equal(taken, r.Data) {
			found.update = taken
			return nil
		}
	}
	found.update = made
	found.steps = []plan.Step{plan.Create{Object: made, Selector: r.Set.Spec.Selector,
		Why: "the template has no revision yet"}}
	r.say("create revision %s", made.Name)
	return nil
}

// collisionsOf is how many names of revisions have turned out to be taken so far (STS-31).
func collisionsOf(set *appsv1.StatefulSet) int32 { return ptr.Deref(set.Status.CollisionCount, 0) }

// templateOf returns the template of a revision. That of the update revision is the set's own.
func (r *rollout) templateOf(c *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	if c == r.update {
		return &r.Set.Spec.Template, nil
	}
	return history.Template(c)
}

// revisionFor is the revision at which a pod is created (STS-38).
func (r *rollout) revisionFor(ordinal int) *appsv1.ControllerRevision {
	strategy := r.Set.Spec.UpdateStrategy
	index := ordinal - start(r.Set)
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType, recreates(r.Set):
		return r.update
	case strategy.RollingUpdate == nil && index < int(r.Set.Status.CurrentReplicas),
		strategy.RollingUpdate != nil && index < r.partition():
		return r.current
	}
	return r.update
}

// partition is the index below which pods are not updated (STS-55, STS-56).
func (r *rollout) partition() int {
	if u := r.Set.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return int(max(0, ptr.Deref(u.Partition, 0)))
	}
	return 0
}

// truncateHistory deletes the oldest revisions beyond the limit that nobody uses (STS-37).
func (r *rollout) truncateHistory() []plan.Step {
	used := map[string]bool{r.update.Name: true, r.current.Name: true, r.Set.Status.CurrentRevision: true}
	for _, p := range r.mine {
		used[revisionOf(p)] = true
	}
	unused := slices.DeleteFunc(slices.Clone(r.Revisions),
		func(c *appsv1.ControllerRevision) bool { return used[c.Name] })
	limit := ptr.Deref(r.Set.Spec.RevisionHistoryLimit, history.DefaultLimit)
	old := history.Surplus(unused, limit, func(*appsv1.ControllerRevision) bool { return false })
	if limit < 0 || len(old) == 0 {
		return nil
	}
	for _, c := range old {
		r.say("delete revision %s, beyond the history limit", c.GetName())
	}
	return []plan.Step{plan.Delete{Objects: old, Why: "beyond the revision history limit"}}
}
