package resourcequota

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// usageCounters keep what the objects of each namespace are charged with, and the sums of that. They tell by changed which quotas have other
// sums than before.
type usageCounters struct {
	changed func(plan.Key)

	mu          sync.Mutex
	namespaces  map[string]*account
	interned    map[string]*interned
	expiring    map[expiry]struct{}      // of the objects whose first charge ends by itself
	comparisons map[*comparison]struct{} // that have not ended
	sequence    uint64                   // of the latest arrival
}

// comparison is that of a live list of a namespace with what is known of it. Objects that go while the list is read may be in it.
type comparison struct {
	of        schema.GroupResource
	namespace string
	gone      map[types.UID]bool
}

// account is what is known of one namespace.
type account struct {
	quotas    map[string]quotaSpec
	items     map[schema.GroupResource]map[types.UID]*interned
	sums      map[sumKey]corev1.ResourceList
	selectors map[string]quota.Selector // of the sums
	arrivals  []arrival
}

// quotaSpec is what a quota limits.
type quotaSpec struct {
	selector quota.Selector
	names    map[schema.GroupResource]bool
	uid      types.UID
	since    time.Time // when that was seen
}

type sumKey struct {
	of       schema.GroupResource
	selector string
}

// interned is an item that many objects have.
type interned struct {
	quota.Item
	key  string
	uses int
}

// arrival is an object that uses more than it did or is selected by other scopes, or that has not been there before.
type arrival struct {
	sequence, version uint64
	at                time.Time
	of                schema.GroupResource
	before, after     *quota.Item // before is nil for a new object
}

type expiry struct {
	namespace string
	of        schema.GroupResource
	uid       types.UID
}

func newUsageCounters(changed func(plan.Key)) *usageCounters {
	u := &usageCounters{changed: changed, comparisons: map[*comparison]struct{}{}}
	u.reset()
	return u
}

// reset forgets everything.
func (u *usageCounters) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.namespaces, u.interned, u.expiring = map[string]*account{}, map[string]*interned{}, map[expiry]struct{}{}
}

func (u *usageCounters) account(namespace string) *account {
	a := u.namespaces[namespace]
	if a == nil {
		a = &account{
			quotas: map[string]quotaSpec{}, items: map[schema.GroupResource]map[types.UID]*interned{}, sums: map[sumKey]corev1.ResourceList{},
			selectors: map[string]quota.Selector{},
		}
		u.namespaces[namespace] = a
	}
	return a
}

// setQuota notes what a quota limits; nil if the quota is gone.
func (u *usageCounters) setQuota(key plan.Key, c *quotaSpec) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.account(key.Namespace)
	if delete(a.quotas, key.Name); c != nil {
		c.since = time.Now()
		a.quotas[key.Name] = *c
	}
	used := map[string]bool{}
	for _, other := range a.quotas {
		used[other.selector.Key()] = true
	}
	maps.DeleteFunc(a.selectors, func(key string, _ quota.Selector) bool { return !used[key] })
	maps.DeleteFunc(a.sums, func(key sumKey, _ corev1.ResourceList) bool { return !used[key.selector] })
	u.tidy(key.Namespace, a)
}

// quotaSince returns since when it is known what a quota limits; zero if it is not. The cache may have a version of the quota already
// that the counters have not been told of.
func (u *usageCounters) quotaSince(key plan.Key, c quotaSpec) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.namespaces[key.Namespace]
	if a == nil || a.quotas[key.Name].uid != c.uid || !maps.Equal(a.quotas[key.Name].names, c.names) {
		return time.Time{}
	}
	return a.quotas[key.Name].since
}

// beginComparison is called before a namespace is listed live, and end when the list has been compared.
func (u *usageCounters) beginComparison(of schema.GroupResource, namespace string) (c *comparison, end func()) {
	c = &comparison{of, namespace, map[types.UID]bool{}}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.comparisons[c] = struct{}{}
	return c, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.comparisons, c)
	}
}

// lacks reports whether an object that was listed is not known, and has not been known either since the comparison began.
func (u *usageCounters) lacks(c *comparison, objects []metav1.PartialObjectMetadata) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	var known map[types.UID]*interned
	if a := u.namespaces[c.namespace]; a != nil {
		known = a.items[c.of]
	}
	return slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return known[o.UID] == nil && !c.gone[o.UID] })
}

// tidy drops an account of which nothing is known.
func (u *usageCounters) tidy(namespace string, a *account) {
	if len(a.quotas)+len(a.items) == 0 {
		delete(u.namespaces, namespace)
	}
}

// put notes what an object is charged with. An initial object was there before the watch of its resource began.
func (u *usageCounters) put(of schema.GroupResource, o identity, item quota.Item, initial bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.account(o.namespace)
	items := a.items[of]
	if items == nil {
		items = map[types.UID]*interned{}
		a.items[of] = items
	}
	if item.Ended(time.Now()) {
		item = item.Rested()
	}
	before := items[o.uid]
	after := u.intern(item)
	if before == after {
		u.release(after)
		return
	}
	items[o.uid] = after
	u.expire(expiry{o.namespace, of, o.uid}, after)
	if new := (arrival{version: o.version, of: of, before: before.item(), after: after.item()}); !initial && new.adds() && a.limits(of) {
		u.arrive(a, new)
	}
	u.replace(o.namespace, of, before, after)
	u.release(before)
}

// remove notes that an object is gone.
func (u *usageCounters) remove(of schema.GroupResource, namespace string, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(of, namespace, uid)
}

func (u *usageCounters) drop(of schema.GroupResource, namespace string, uid types.UID) {
	a := u.namespaces[namespace]
	if a == nil || a.items[of][uid] == nil {
		return
	}
	before := a.items[of][uid]
	if delete(a.items[of], uid); len(a.items[of]) == 0 {
		delete(a.items, of)
	}
	for c := range u.comparisons {
		if c.of == of && c.namespace == namespace {
			c.gone[uid] = true
		}
	}
	u.expire(expiry{namespace, of, uid}, nil)
	u.replace(namespace, of, before, nil)
	u.release(before)
	u.tidy(namespace, a)
}

// retain drops all objects of a resource but those of these uids, by namespace.
func (u *usageCounters) retain(of schema.GroupResource, there map[types.UID]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for namespace, a := range maps.Clone(u.namespaces) {
		for uid := range maps.Clone(a.items[of]) {
			if !there[uid] {
				u.drop(of, namespace, uid)
			}
		}
	}
}

// replace brings the sums up to date, and tells the quotas whose sums have changed.
func (u *usageCounters) replace(namespace string, of schema.GroupResource, before, after *interned) {
	a := u.namespaces[namespace]
	for key, selector := range a.selectors {
		sum, ok := a.sums[sumKey{of, key}]
		if !ok {
			continue
		}
		if before != nil && selector.Matches(before.Traits) {
			quota.Subtract(sum, before.Usage)
		}
		if after != nil && selector.Matches(after.Traits) {
			quota.Add(sum, after.Usage)
		}
	}
	for name, q := range a.quotas {
		if q.names[of] && (before != nil && q.selector.Matches(before.Traits) || after != nil && q.selector.Matches(after.Traits)) {
			u.changed(plan.Key{Namespace: namespace, Name: name})
		}
	}
}

// arrive keeps an arrival for as long as a reservation may wait for it.
func (u *usageCounters) arrive(a *account, new arrival) {
	u.sequence++
	new.sequence, new.at = u.sequence, time.Now()
	a.arrivals = append(a.arrivals, new)
}

// forget drops the arrivals that no reservation waits for any more.
func (a *account) forget(now time.Time) {
	old := 0
	for old < len(a.arrivals) && now.Sub(a.arrivals[old].at) > reservedFor {
		old++
	}
	if old > 0 {
		a.arrivals = slices.Clone(a.arrivals[old:])
	}
}

// adds reports whether some sum may have grown by an arrival.
func (a arrival) adds() bool {
	return a.before == nil || !a.before.Traits.Equal(a.after.Traits) || len(quota.Over(a.after.Usage, a.before.Usage)) > 0
}

// limits reports whether some quota of the namespace limits a resource.
func (a *account) limits(of schema.GroupResource) bool {
	for _, q := range a.quotas {
		if q.names[of] {
			return true
		}
	}
	return false
}

// count returns what the selected objects of the resources use, and what has arrived of them since. The sequence is that of the latest
// arrival in the sum.
func (u *usageCounters) count(namespace string, c quotaSpec, since uint64) (sum corev1.ResourceList, arrived []arrival, sequence uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.account(namespace)
	defer u.tidy(namespace, a)
	sum = corev1.ResourceList{}
	for of := range c.names {
		quota.Add(sum, a.sum(of, c.selector))
	}
	from, _ := slices.BinarySearchFunc(a.arrivals, since+1, func(a arrival, s uint64) int { return int(int64(a.sequence) - int64(s)) })
	for _, one := range a.arrivals[from:] {
		if c.names[one.of] {
			arrived = append(arrived, one)
		}
	}
	return sum, arrived, u.sequence
}

// sum returns one of the sums, and keeps it up to date from now on.
func (a *account) sum(of schema.GroupResource, s quota.Selector) corev1.ResourceList {
	key := sumKey{of, s.Key()}
	if sum, ok := a.sums[key]; ok {
		return sum
	}
	sum := corev1.ResourceList{}
	for _, i := range a.items[of] {
		if s.Matches(i.Traits) {
			quota.Add(sum, i.Usage)
		}
	}
	a.selectors[s.Key()], a.sums[key] = s, sum
	return sum
}

// recount makes all sums anew (RQ-2).
func (u *usageCounters) recount() (all []plan.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for namespace, a := range u.namespaces {
		clear(a.sums)
		for name := range a.quotas {
			all = append(all, plan.Key{Namespace: namespace, Name: name})
		}
	}
	return all
}

// wanted returns the resources that some quota limits.
func (u *usageCounters) wanted() map[schema.GroupResource]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[schema.GroupResource]bool{}
	for _, a := range u.namespaces {
		for _, q := range a.quotas {
			maps.Copy(all, q.names)
		}
	}
	return all
}

// limiting returns the quotas that limit a resource.
func (u *usageCounters) limiting(of schema.GroupResource) (all []plan.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for namespace, a := range u.namespaces {
		for name, q := range a.quotas {
			if q.names[of] {
				all = append(all, plan.Key{Namespace: namespace, Name: name})
			}
		}
	}
	return all
}

// expire notes whether the first charge of an object ends by itself.
func (u *usageCounters) expire(e expiry, i *interned) {
	if delete(u.expiring, e); i != nil && !i.Until.IsZero() {
		u.expiring[e] = struct{}{}
	}
}

// tick ends the charges whose time is over (RQ-24, RQ-55), and returns their pods. It forgets old arrivals, too.
func (u *usageCounters) tick(now time.Time) (expired []podID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range u.namespaces {
		a.forget(now)
	}
	for e := range u.expiring {
		a := u.namespaces[e.namespace]
		before := a.items[e.of][e.uid]
		if !before.Ended(now) {
			continue
		}
		after := u.intern(before.Rested())
		a.items[e.of][e.uid] = after
		delete(u.expiring, e)
		u.replace(e.namespace, e.of, before, after)
		u.release(before)
		if e.of == quota.Pods() {
			expired = append(expired, podID{e.namespace, e.uid})
		}
	}
	return expired
}

// intern returns the one copy of an item, which one more object has.
func (u *usageCounters) intern(item quota.Item) *interned {
	key := keyOf(item)
	i := u.interned[key]
	if i == nil {
		i = &interned{Item: item, key: key}
		u.interned[key] = i
	}
	i.uses++
	return i
}

// release notes that an object does not have an item any more.
func (u *usageCounters) release(i *interned) {
	if i == nil {
		return
	}
	if i.uses--; i.uses == 0 {
		delete(u.interned, i.key)
	}
}

func (i *interned) item() *quota.Item {
	if i == nil {
		return nil
	}
	return &i.Item
}

// keyOf returns a text that is the same for equal items.
func keyOf(i quota.Item) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(i.Usage)) {
		q := i.Usage[name]
		b.WriteString(string(name))
		b.WriteByte('=')
		b.WriteString(q.String())
		b.WriteByte(';')
	}
	if i.Traits.Kind != "" {
		fmt.Fprintf(&b, "%+v", i.Traits)
	}
	if !i.Until.IsZero() {
		b.WriteString(strconv.FormatInt(i.Until.Unix(), 36))
	}
	return b.String()
}
