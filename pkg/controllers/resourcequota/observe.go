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

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/internal/quota/usage"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// readWithin is how long a live read of the quota may take. Without an answer, nothing is lowered too early.
	readWithin = 2 * time.Second
	// lookAgain is when a quota is looked at again that waits for a watch.
	lookAgain = usage.LookAgain
)

// caches are what the controller reads.
type caches struct {
	quotas informers.Store[*corev1.ResourceQuota]
	gates  quota.Gates
	index  *usage.Index
	// verifier reads live, as the identity that fills the caches; nil: they are trusted.
	verifier client.Reader
}

// observe finds the quota and what is counted for it.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	q := k.quotas.Get(r.Key.Namespace, r.Key.Name)
	if q == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.Quota = true, q
	s := &o.Snapshot
	l, err := sums.LimitsOf(q, k.gates)
	if err != nil {
		s.Error = err.Error()
		return o, nil
	}
	before := memory{}
	if r.Memory != nil {
		before = r.Memory.under(l.Selector.Key())
	}
	since := k.index.Since(r.Key, l)
	s.Waited = !since.IsZero() && r.Now.Sub(since) >= usage.ListWithin
	states := k.index.States(l)
	compared, err := k.verify(ctx, q, since, before, states)
	if err != nil {
		return o, err
	}
	sum, arrived, sequence := k.index.Count(r.Key.Namespace, l, before.Sequence)
	for of, now := range k.index.States(l) {
		if now.Watch != states[of].Watch { // some of what it has shown may be forgotten
			states[of] = usage.Status{State: usage.Listing}
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
	s.Memory = before.advance(r.Now, q, s.Counted, versions(r.Changes, q), arrivals(arrived, l.Selector, s.Counted))
	s.Memory.Sequence, s.Memory.Selector, s.Memory.Compared = sequence, l.Selector.Key(), compared
	return o, nil
}

// verify compares live what is known of the resources that are counted for the first time, once for each source. A
// watch that was there before the quota may be late: it would lack objects that are there already, and the first status
// would have room for as many.
func (k *caches) verify(ctx context.Context, q *corev1.ResourceQuota, since time.Time, m memory,
	states map[schema.GroupResource]usage.Status) (compared []uint64, err error) {
	for of, now := range states {
		switch {
		case now.State != usage.Listed || k.verifier == nil:
			continue
		case slices.Contains(m.Compared, now.Watch):
			now.State = usage.Verified
		case k.unverified(of, q, since, m, now):
			now.State = k.index.Compare(ctx, k.verifier, of, now.Mapping, q.Namespace)
		}
		states[of] = now
		if now.State == usage.Verified {
			compared = append(compared, now.Watch)
		}
	}
	slices.Sort(compared)
	return compared, ctx.Err()
}

// unverified reports whether a name of the quota is counted for the first time from a watch that may be late.
func (k *caches) unverified(of schema.GroupResource, q *corev1.ResourceQuota, since time.Time, m memory,
	now usage.Status) bool {
	if !since.IsZero() && !now.Began.Before(since) {
		return false
	}
	for name := range q.Spec.Hard {
		if !m.knows(name) && slices.Contains(quota.Charged(name, k.gates), of) {
			return true
		}
	}
	return false
}

// atRest reports whether the status has not changed for as long as a reservation lasts. Caches do not show when it was
// written.
func (k *caches) atRest(ctx context.Context, now time.Time, q *corev1.ResourceQuota) bool {
	m, ok := client.BuiltIn(quotaKind)
	if !ok || k.verifier == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()}
	err := k.verifier.List(ctx, m, q.Namespace, named, list)
	return err == nil && len(list.Items) == 1 && list.Items[0].UID == q.UID && atRest(now, list.Items[0].ManagedFields)
}

// known reports whether what is charged to a name is counted, and by which watches; if not, it notes what that waits
// for.
func (s *snapshot) known(name corev1.ResourceName, states map[schema.GroupResource]usage.Status,
	g quota.Gates) (numbers string, ok bool) {
	complete := true
	for _, of := range quota.Charged(name, g) {
		switch states[of].State {
		case usage.Listed, usage.Verified:
			numbers += strconv.FormatUint(states[of].Watch, 10) + ","
		case usage.Late:
			s.Late, complete = append(s.Late, of.String()), false
		case usage.Listing:
			s.Waiting, complete = append(s.Waiting, of.String()), false
		case usage.Failing:
			s.Failing, complete = append(s.Failing, of.String()), false
		case usage.Absent:
		}
	}
	return numbers, numbers != "" && complete
}

// versions returns, in order, what is used according to each version of the quota that was seen since the last
// reconcile. The cache may be ahead of the recorded changes, so the version in the cache is always the last one.
func versions(changes []reconcile.Change, q *corev1.ResourceQuota) (all []version) {
	for _, c := range changes {
		before, ok1 := c.Before.(*corev1.ResourceQuota)
		after, ok2 := c.After.(*corev1.ResourceQuota)
		if ok1 && ok2 && before.UID == q.UID && after.UID == q.UID && quota.Version(after) <= quota.Version(q) {
			all = append(all, version{quota.Version(after), quota.Version(before), after.Status.Used})
		}
	}
	return append(all, version{Version: quota.Version(q), Used: q.Status.Used})
}

// arrivals returns what has arrived of the objects that are selected, as far as it is limited.
func arrivals(arrived []sums.Arrival, s quota.Selector, limited corev1.ResourceList) (all []increase) {
	for _, a := range arrived {
		if !s.Matches(a.After.Traits) {
			continue
		}
		more := a.After.Usage
		if a.Before != nil && s.Matches(a.Before.Traits) {
			more = quota.Over(more, a.Before.Usage)
		}
		of := corev1.ResourceList{}
		for name, amount := range more {
			if _, ok := limited[name]; ok && amount.Sign() > 0 {
				of[name] = amount
			}
		}
		if len(of) > 0 {
			all = append(all, increase{Version: a.Version, Usage: of})
		}
	}
	return all
}
