package oracle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// disruptedFor is how long an eviction that the API server has allowed counts although its pod is not being deleted (DIS-22).
const disruptedFor = 2 * time.Minute

// EvictionsRespectBudgets is S24: when the API server allows an eviction (DIS-29), the budget has as many healthy pods left as it asks for
// (DIS-17 to DIS-18b), counted from the pods and sizes of that moment and not from any status. What a pod loses by itself, or a size gains,
// excuses for the lag of a manager, and before it while no manager works, as after a crash; evictions never do, since each is in the status
// from which the next one is taken.
func EvictionsRespectBudgets() Oracle {
	return Oracle{"S24", "evictions leave budgets the healthy pods that they ask for", func(j *judge) hooks {
		budgets := budgetTimes{world: j.world, all: map[string]*budgetTime{}}
		return hooks{after: func(r *revision) {
			if b, ok := r.Object.(*policyv1.PodDisruptionBudget); ok {
				budgets.applyBudget(r, b)
				if old, ok := r.old.(*policyv1.PodDisruptionBudget); ok && !r.manager && r.Type != Deleted {
					j.evicted(r, old, b, budgets.all[r.key])
				}
				return
			}
			switch r.kind {
			case Pod, ReplicaSet, ReplicationController, Deployment:
				budgets.apply(r)
			}
			if r.manager && r.kind != Lease {
				budgets.managed()
			}
		}}
	}}
}

// budgetTimes are the budgets, with their recent past.
type budgetTimes struct {
	*world
	all map[string]*budgetTime // by key
}

type budgetTime struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
	healthy  map[types.UID]bool
	desired  int       // -1 if that cannot be known
	harmed   time.Time // when something else than an eviction last took a healthy pod, or asked for more
	worked   time.Time // when a manager first wrote something after that
}

func (t *budgetTimes) applyBudget(r *revision, b *policyv1.PodDisruptionBudget) {
	if r.Type == Deleted {
		delete(t.all, r.key)
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	next := &budgetTime{PodDisruptionBudget: b, selector: selector}
	if before := t.all[r.key]; before != nil && before.UID == b.UID {
		next.harmed, next.worked = before.harmed, before.worked
	}
	next.healthy, next.desired = t.look(next)
	t.all[r.key] = next
}

// apply notes what a change of a pod or of a size does to the budgets of its namespace.
func (t *budgetTimes) apply(r *revision) {
	for _, b := range t.all {
		if b.Namespace != r.Object.GetNamespace() {
			continue
		}
		healthy, desired := t.look(b)
		for uid := range b.healthy {
			if !healthy[uid] && !b.evicting(r, uid) {
				b.harmed, b.worked = t.now, time.Time{}
			}
		}
		if desired != b.desired && (desired > b.desired || desired < 0) {
			b.harmed, b.worked = t.now, time.Time{}
		}
		b.healthy, b.desired = healthy, desired
	}
}

// managed notes that a manager works.
func (t *budgetTimes) managed() {
	for _, b := range t.all {
		if b.worked.IsZero() && t.now.After(b.harmed) {
			b.worked = t.now
		}
	}
}

// evicting reports whether a pod that changes is one of which the budget knows that it is being evicted.
func (b *budgetTime) evicting(r *revision, uid types.UID) bool {
	_, named := b.Status.DisruptedPods[r.Object.GetName()]
	return named && r.uid == uid && (r.Object.GetDeletionTimestamp() != nil || r.Type == Deleted)
}

// look counts the healthy pods, those that are being evicted among them, and what the budget asks for.
func (t *budgetTimes) look(b *budgetTime) (healthy map[types.UID]bool, desired int) {
	healthy = map[types.UID]bool{}
	pods, sizes, known := 0, map[types.UID]int32{}, true
	for _, p := range t.podsIn[b.Namespace] {
		if !b.selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		pods++
		if ready(p.Pod) && p.DeletionTimestamp == nil {
			healthy[p.UID] = true
		}
		if p.controller != "" && !t.addSize(p.controller, sizes) {
			known = false
		}
	}
	expected := 0
	for _, n := range sizes {
		expected += int(n)
	}
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	switch {
	case most == nil && least != nil && least.Type == intstr.Int:
		return healthy, least.IntValue()
	case !known:
		return healthy, -1
	case most != nil:
		n, _ := intstr.GetScaledValueFromIntOrPercent(most, expected, true)
		return healthy, max(0, expected-n)
	case least != nil:
		n, _ := intstr.GetScaledValueFromIntOrPercent(least, expected, true)
		return healthy, n
	}
	return healthy, 0
}

// addSize adds the size of a controller of pods, or of its own controller, once. It reports whether it is known.
func (t *budgetTimes) addSize(uid types.UID, to map[types.UID]int32) bool {
	if s := t.sets[uid]; s != nil && s.gone == nil {
		d := t.deployments[s.controller]
		switch {
		case s.controller == "":
			to[uid] = *s.Spec.Replicas
		case d != nil && d.gone == nil:
			to[d.UID] = *d.Spec.Replicas
		default:
			return false
		}
		return true
	}
	o := t.owners[identity{"ReplicationController", uid}]
	if o == nil || o.gone != nil {
		return false
	}
	rc, ok := o.Object.(*corev1.ReplicationController)
	if ok {
		to[uid] = *rc.Spec.Replicas
	}
	return ok
}

// evicted judges the evictions that a change of a budget's status allows.
func (j *judge) evicted(r *revision, old, b *policyv1.PodDisruptionBudget, t *budgetTime) {
	granted := slices.DeleteFunc(slices.Sorted(maps.Keys(b.Status.DisruptedPods)), func(name string) bool {
		before, known := old.Status.DisruptedPods[name]
		after := b.Status.DisruptedPods[name]
		return known && before.Equal(&after)
	})
	if len(granted) == 0 {
		return
	}
	left := 0
	for _, p := range j.podsIn[b.Namespace] {
		since, disrupted := b.Status.DisruptedPods[p.Name]
		if t.healthy[p.UID] && (!disrupted || !j.now.Before(since.Add(disruptedFor))) {
			left++
		}
	}
	lag := j.lagAt(j.now, "", Pod, PodDisruptionBudget, ReplicaSet, Deployment, ReplicationController)
	excused := t.desired < 0 || !t.harmed.IsZero() && (t.worked.IsZero() || !t.worked.Before(lag))
	if j.judges(excused); excused || left >= t.desired {
		return
	}
	j.report(r, nil, "the eviction of %v leaves %d healthy pods of the %d that are asked for; the status said %+v", granted, left,
		t.desired, old.Status)
}
