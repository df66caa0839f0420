package resourcequota

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/guard"
	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// lookWithin is how long a live read of the quota may take. Without an answer, nothing is lowered too early.
const lookWithin = 2 * time.Second

// caches are what the controller reads.
type caches struct {
	quotas   informers.Store[*corev1.ResourceQuota]
	gates    quota.Gates
	counters *usageCounters
	sources  *sources
	// verifier reads live, as the identity that fills the caches; nil: they are trusted.
	verifier client.Reader
	// lists are the live lists. A resource that could not be listed in time is asked for by one quota at a time, so that it does not keep all
	// workers from other quotas.
	lists guard.Guard[schema.GroupResource]
}

func newCaches(quotas informers.Store[*corev1.ResourceQuota], g quota.Gates, period time.Duration) *caches {
	k := &caches{quotas: quotas, gates: g}
	k.lists.Pause, k.lists.Turn = lookAgain, listWithin+lookAgain
	k.sources = newSources(g, period)
	k.counters = newUsageCounters(k.sources.dirty.add)
	k.sources.counters = k.counters
	return k
}

// identity is what is kept of an object besides its charge.
type identity struct {
	namespace string
	uid       types.UID
	version   uint64
}

func identityOf(o metav1.Object) identity {
	return identity{o.GetNamespace(), o.GetUID(), versionOf(o)}
}

// versionOf returns the resourceVersion as a number, 0 if it is none.
func versionOf(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}

// quotaSpecOf returns what a quota limits. Scopes that no server accepts select nothing, and are told as an error.
func quotaSpecOf(q *corev1.ResourceQuota, g quota.Gates) (quotaSpec, error) {
	selector, err := quota.NewSelector(&q.Spec)
	c := quotaSpec{uid: q.UID, selector: selector, names: map[schema.GroupResource]bool{}}
	for name := range q.Spec.Hard {
		for _, of := range quota.Charged(name, g) {
			c.names[of] = true
		}
	}
	return c, err
}

// observe finds the quota and what is counted for it.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory], err error) {
	q := k.quotas.Get(r.Key.Namespace, r.Key.Name)
	if q == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.Quota = true, q
	s := &o.Snapshot
	c, err := quotaSpecOf(q, k.gates)
	if err != nil {
		s.Error, s.Memory = err.Error(), memory{UID: q.UID}
		return o, nil
	}
	before := memory{}
	if r.Memory != nil && r.Memory.UID == q.UID {
		before = r.Memory.under(c.selector.Key())
	}
	since := k.counters.quotaSince(r.Key, c)
	s.Waited = !since.IsZero() && r.Now.Sub(since) >= listWithin
	states := k.sources.states(c.names)
	compared, err := k.verify(ctx, q, since, before, states)
	if err != nil {
		return o, err
	}
	sum, arrived, sequence := k.counters.count(r.Key.Namespace, c, before.Sequence)
	for of, now := range k.sources.states(c.names) {
		if now.number != states[of].number { // some of what it has shown may be forgotten
			states[of] = status{sourceState: listing}
		}
	}
	s.Counted = corev1.ResourceList{}
	from := map[corev1.ResourceName]string{}
	for name := range q.Spec.Hard {
		if numbers, ok := s.known(name, states, k.gates); ok {
			s.Counted[name], from[name] = sum[name].DeepCopy(), numbers
		}
	}
	before = before.from(from)
	if len(before.uncounted(q, s.Counted)) > 0 {
		before.AtRest = k.atRest(ctx, r.Now, q)
	}
	slices.Sort(s.Waiting)
	slices.Sort(s.Failing)
	slices.Sort(s.Late)
	s.Waiting, s.Failing, s.Late = slices.Compact(s.Waiting), slices.Compact(s.Failing), slices.Compact(s.Late)
	s.Memory = before.advance(r.Now, q, s.Counted, versions(r.Changes, q), arrivals(arrived, c.selector, s.Counted))
	s.Memory.Sequence, s.Memory.Selector, s.Memory.Compared = sequence, c.selector.Key(), compared
	return o, nil
}

// verify compares live what is known of the resources that are counted for the first time, once for each source. A watch that was there
// before the quota may be late: it would lack objects that are there already, and the first status would have room for as many.
func (k *caches) verify(ctx context.Context, q *corev1.ResourceQuota, since time.Time, m memory, states map[schema.GroupResource]status) (compared []uint64, err error) {
	for of, now := range states {
		switch {
		case now.sourceState != listed || k.verifier == nil:
			continue
		case slices.Contains(m.Compared, now.number):
			now.sourceState = verified
		case k.unverified(of, q, since, m, now):
			now.sourceState = k.compare(ctx, of, now.mapping, q.Namespace)
		}
		states[of] = now
		if now.sourceState == verified {
			compared = append(compared, now.number)
		}
	}
	slices.Sort(compared)
	return compared, ctx.Err()
}

// unverified reports whether a name of the quota is counted for the first time from a watch that may be late.
func (k *caches) unverified(of schema.GroupResource, q *corev1.ResourceQuota, since time.Time, m memory, now status) bool {
	if !since.IsZero() && !now.began.Before(since) {
		return false
	}
	for name := range q.Spec.Hard {
		if !slices.Contains(m.Known, name) && slices.Contains(quota.Charged(name, k.gates), of) {
			return true
		}
	}
	return false
}

// compare lists a namespace live. What cannot be listed in time keeps only its own names from being counted.
func (k *caches) compare(ctx context.Context, of schema.GroupResource, m client.Mapping, namespace string) sourceState {
	ended, err := k.lists.Begin(of)
	if err != nil {
		return failing
	}
	limited, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	comparison, end := k.counters.beginComparison(of, namespace)
	defer end()
	list := &metav1.PartialObjectMetadataList{}
	err = k.verifier.List(limited, m, namespace, metav1.ListOptions{}, list)
	ended(limited.Err())
	if err != nil {
		return failing
	}
	if k.counters.lacks(comparison, list.Items) {
		return late
	}
	return verified
}

// atRest reports whether the status has not changed for as long as a reservation lasts. Caches do not tell when it was written.
func (k *caches) atRest(ctx context.Context, now time.Time, q *corev1.ResourceQuota) bool {
	m, ok := client.BuiltIn(quotaKind)
	if !ok || k.verifier == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()}
	err := k.verifier.List(ctx, m, q.Namespace, named, list)
	return err == nil && len(list.Items) == 1 && list.Items[0].UID == q.UID && atRest(now, list.Items[0].ManagedFields)
}

// known reports whether what is charged to a name is counted, and by which sources; if not, it notes what that waits for.
func (s *snapshot) known(name corev1.ResourceName, states map[schema.GroupResource]status, g quota.Gates) (numbers string, ok bool) {
	complete := true
	for _, of := range quota.Charged(name, g) {
		switch states[of].sourceState {
		case listed, verified:
			numbers += strconv.FormatUint(states[of].number, 10) + ","
		case late:
			s.Late, complete = append(s.Late, of.String()), false
		case listing:
			s.Waiting, complete = append(s.Waiting, of.String()), false
		case failing:
			s.Failing, complete = append(s.Failing, of.String()), false
		case absent:
		}
	}
	return numbers, numbers != "" && complete
}

// versions returns what the versions of the quota said that were seen since it was last looked at, in order. The cache may be ahead of the
// changes that are known.
func versions(changes []reconcile.Change, q *corev1.ResourceQuota) (all []version) {
	for _, c := range changes {
		before, ok1 := c.Before.(*corev1.ResourceQuota)
		after, ok2 := c.After.(*corev1.ResourceQuota)
		if ok1 && ok2 && before.UID == q.UID && after.UID == q.UID && versionOf(after) <= versionOf(q) {
			all = append(all, version{versionOf(after), versionOf(before), after.Status.Used})
		}
	}
	return append(all, version{Version: versionOf(q), Used: q.Status.Used})
}

// arrivals returns what has arrived of the objects that are selected, as far as it is limited.
func arrivals(arrived []arrival, s quota.Selector, limited corev1.ResourceList) (all []increase) {
	for _, a := range arrived {
		if !s.Matches(a.after.Traits) {
			continue
		}
		usage := a.after.Usage
		if a.before != nil && s.Matches(a.before.Traits) {
			usage = quota.Over(usage, a.before.Usage)
		}
		of := corev1.ResourceList{}
		for name, amount := range usage {
			if _, ok := limited[name]; ok && amount.Sign() > 0 {
				of[name] = amount
			}
		}
		if len(of) > 0 {
			all = append(all, increase{Version: a.version, Usage: of})
		}
	}
	return all
}
