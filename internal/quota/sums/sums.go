package sums

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

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Sums keep what the objects of each namespace are charged with, and the sums of that. The methods are safe for
// concurrent use.
type Sums struct {
	// changed is called with the keys of quotas whose sums have changed.
	changed func(plan.Key)
	kept    time.Duration    // how long arrivals are
	Now     func() time.Time // by which charges end

	mu         sync.Mutex
	namespaces map[string]*account
	// interned are charges that several objects have in common: pods of one template do.
	interned    map[string]*interned
	expiring    map[Charged]struct{}     // of the objects whose first charge ends by itself
	comparisons map[*Comparison]struct{} // that have not ended
	sequence    uint64                   // of the latest arrival
}

// account is what is known of one namespace.
type account struct {
	// quotas are what is limited in the namespace, by name.
	quotas map[string]Limits
	// items are what there is, by resource and uid.
	items     map[schema.GroupResource]map[types.UID]*interned
	sums      map[sumKey]corev1.ResourceList
	selectors map[string]quota.Selector // of the sums
	// arrivals are objects that have come or grown, the latest last, until they are too old.
	arrivals []Arrival
}

// Limits are what a quota limits.
type Limits struct {
	Selector quota.Selector
	// Resources are those of which the quota names something.
	Resources map[schema.GroupResource]bool

	uid   types.UID // of the quota
	since time.Time // when that was seen
}

// LimitsOf returns what a quota limits. Scopes that no server accepts select nothing, and are returned as an error.
func LimitsOf(q *corev1.ResourceQuota, g quota.Gates) (Limits, error) {
	selector, err := quota.NewSelector(&q.Spec)
	l := Limits{uid: q.UID, Selector: selector, Resources: map[schema.GroupResource]bool{}}
	for name := range q.Spec.Hard {
		for _, of := range quota.Charged(name, g) {
			l.Resources[of] = true
		}
	}
	return l, err
}

// sumKey is which objects of a namespace are added up: those of a resource that a selector matches.
type sumKey struct {
	of       schema.GroupResource
	selector string
}

// interned is an item that many objects have.
type interned struct {
	quota.Item
	key string
	// uses counts the objects with that charge. It is forgotten with the last one.
	uses int
}

// Arrival is an object that uses more than it did or is selected by other scopes, or that has not been there before.
type Arrival struct {
	Version       uint64      // of the object
	Before, After *quota.Item // Before is nil for a new object

	sequence uint64
	// at is when this process has seen it.
	at time.Time
	of schema.GroupResource
}

// Charged names an object that is charged with something.
type Charged struct {
	Namespace string
	Of        schema.GroupResource
	UID       types.UID
}

// New returns sums of nothing. They call changed with the quotas that have other sums than before, and keep arrivals
// for so long.
func New(changed func(plan.Key), kept time.Duration) *Sums {
	s := &Sums{changed: changed, kept: kept, Now: time.Now, comparisons: map[*Comparison]struct{}{}}
	s.Reset()
	return s
}

// Reset forgets everything, other than the comparisons that have not ended.
func (s *Sums) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces, s.interned, s.expiring = map[string]*account{}, map[string]*interned{}, map[Charged]struct{}{}
}

// account returns what is known of a namespace, which begins with nothing. It is called under the lock.
func (s *Sums) account(namespace string) *account {
	a := s.namespaces[namespace]
	if a == nil {
		a = &account{
			quotas: map[string]Limits{}, items: map[schema.GroupResource]map[types.UID]*interned{},
			sums:      map[sumKey]corev1.ResourceList{},
			selectors: map[string]quota.Selector{},
		}
		s.namespaces[namespace] = a
	}
	return a
}

// SetQuota notes what a quota limits; nil if the quota is gone.
func (s *Sums) SetQuota(key plan.Key, l *Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(key.Namespace)
	if delete(a.quotas, key.Name); l != nil {
		l.since = time.Now()
		a.quotas[key.Name] = *l
	}
	used := map[string]bool{}
	for _, other := range a.quotas {
		used[other.Selector.Key()] = true
	}
	maps.DeleteFunc(a.selectors, func(key string, _ quota.Selector) bool { return !used[key] })
	maps.DeleteFunc(a.sums, func(key sumKey, _ corev1.ResourceList) bool { return !used[key.selector] })
	s.dropIfEmpty(key.Namespace, a)
}

// Since returns since when it is known what a quota limits; zero if it is not. The cache may have a version of the
// quota already that the counters do not know of.
func (s *Sums) Since(key plan.Key, l Limits) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.namespaces[key.Namespace]
	if a == nil || a.quotas[key.Name].uid != l.uid || !maps.Equal(a.quotas[key.Name].Resources, l.Resources) {
		return time.Time{}
	}
	return a.quotas[key.Name].since
}

// dropIfEmpty drops an account of which nothing is known.
func (s *Sums) dropIfEmpty(namespace string, a *account) {
	if len(a.quotas)+len(a.items) == 0 {
		delete(s.namespaces, namespace)
	}
}

// Put notes what an object is charged with. An initial object was there before the watch of its resource began.
func (s *Sums) Put(of schema.GroupResource, o metav1.Object, item quota.Item, initial bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, uid := o.GetNamespace(), o.GetUID()
	a := s.account(namespace)
	items := a.items[of]
	if items == nil {
		items = map[types.UID]*interned{}
		a.items[of] = items
	}
	if item.Ended(s.Now()) {
		item = item.Rested()
	}
	before := items[uid]
	after := s.intern(item)
	if before == after {
		s.release(after)
		return
	}
	items[uid] = after
	s.expire(Charged{namespace, of, uid}, after)
	if new := (Arrival{Version: quota.Version(o), of: of, Before: before.item(), After: after.item()}); !initial &&
		new.adds() && a.limits(of) {
		s.arrive(a, new)
	}
	s.replace(namespace, of, before, after)
	s.release(before)
}

// Remove notes that an object is gone.
func (s *Sums) Remove(of schema.GroupResource, namespace string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(of, namespace, uid)
}

// drop takes an object out of the sums. It is called under the lock.
func (s *Sums) drop(of schema.GroupResource, namespace string, uid types.UID) {
	a := s.namespaces[namespace]
	if a == nil || a.items[of][uid] == nil {
		return
	}
	before := a.items[of][uid]
	if delete(a.items[of], uid); len(a.items[of]) == 0 {
		delete(a.items, of)
	}
	for c := range s.comparisons {
		if c.of == of && c.namespace == namespace {
			c.gone[uid] = true
		}
	}
	s.expire(Charged{namespace, of, uid}, nil)
	s.replace(namespace, of, before, nil)
	s.release(before)
	s.dropIfEmpty(namespace, a)
}

// Retain drops all objects of a resource but those of these uids, by namespace.
func (s *Sums) Retain(of schema.GroupResource, there map[types.UID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, a := range maps.Clone(s.namespaces) {
		for uid := range maps.Clone(a.items[of]) {
			if !there[uid] {
				s.drop(of, namespace, uid)
			}
		}
	}
}

// replace brings the sums up to date, and returns the quotas whose sums have changed.
func (s *Sums) replace(namespace string, of schema.GroupResource, before, after *interned) {
	a := s.namespaces[namespace]
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
		if q.Resources[of] &&
			(before != nil && q.Selector.Matches(before.Traits) || after != nil && q.Selector.Matches(after.Traits)) {
			s.changed(plan.Key{Namespace: namespace, Name: name})
		}
	}
}

// arrive keeps an arrival for as long as a reservation may wait for it.
func (s *Sums) arrive(a *account, new Arrival) {
	s.sequence++
	new.sequence, new.at = s.sequence, time.Now()
	a.arrivals = append(a.arrivals, new)
}

// forget drops the arrivals that no reservation waits for any more.
func (a *account) forget(now time.Time, kept time.Duration) {
	old := 0
	for old < len(a.arrivals) && now.Sub(a.arrivals[old].at) > kept {
		old++
	}
	if old > 0 {
		a.arrivals = slices.Clone(a.arrivals[old:])
	}
}

// adds reports whether some sum may have grown by an arrival.
func (a Arrival) adds() bool {
	return a.Before == nil || !a.Before.Traits.Equal(a.After.Traits) ||
		len(quota.Over(a.After.Usage, a.Before.Usage)) > 0
}

// limits reports whether some quota of the namespace limits a resource.
func (a *account) limits(of schema.GroupResource) bool {
	for _, q := range a.quotas {
		if q.Resources[of] {
			return true
		}
	}
	return false
}

// Count returns what the selected objects of the resources use, and what has arrived of them since. The sequence is
// that of the latest arrival in the sum.
func (s *Sums) Count(namespace string, l Limits, since uint64) (sum corev1.ResourceList, arrived []Arrival,
	sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(namespace)
	defer s.dropIfEmpty(namespace, a)
	sum = corev1.ResourceList{}
	for of := range l.Resources {
		quota.Add(sum, a.sum(of, l.Selector))
	}
	from, _ := slices.BinarySearchFunc(a.arrivals, since+1,
		func(a Arrival, after uint64) int { return int(int64(a.sequence) - int64(after)) })
	for _, one := range a.arrivals[from:] {
		if l.Resources[one.of] {
			arrived = append(arrived, one)
		}
	}
	return sum, arrived, s.sequence
}

// sum returns one of the sums, and keeps it up to date from now on.
func (a *account) sum(of schema.GroupResource, selector quota.Selector) corev1.ResourceList {
	key := sumKey{of, selector.Key()}
	if sum, ok := a.sums[key]; ok {
		return sum
	}
	sum := corev1.ResourceList{}
	for _, i := range a.items[of] {
		if selector.Matches(i.Traits) {
			quota.Add(sum, i.Usage)
		}
	}
	a.selectors[selector.Key()], a.sums[key] = selector, sum
	return sum
}

// Recount makes all sums anew (RQ-2).
func (s *Sums) Recount() (all []plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, a := range s.namespaces {
		clear(a.sums)
		for name := range a.quotas {
			all = append(all, plan.Key{Namespace: namespace, Name: name})
		}
	}
	return all
}

// Wanted returns the resources that some quota limits.
func (s *Sums) Wanted() map[schema.GroupResource]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[schema.GroupResource]bool{}
	for _, a := range s.namespaces {
		for _, q := range a.quotas {
			maps.Copy(all, q.Resources)
		}
	}
	return all
}

// Limiting returns the quotas that limit a resource.
func (s *Sums) Limiting(of schema.GroupResource) (all []plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, a := range s.namespaces {
		for name, q := range a.quotas {
			if q.Resources[of] {
				all = append(all, plan.Key{Namespace: namespace, Name: name})
			}
		}
	}
	return all
}

// expire notes whether the first charge of an object ends by itself.
func (s *Sums) expire(e Charged, i *interned) {
	if delete(s.expiring, e); i != nil && !i.Until.IsZero() {
		s.expiring[e] = struct{}{}
	}
}

// Tick ends the charges whose time is over (RQ-24, RQ-55), and returns whose they were. It forgets old arrivals, too.
func (s *Sums) Tick(now time.Time) (expired []Charged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.namespaces {
		a.forget(now, s.kept)
	}
	for e := range s.expiring {
		a := s.namespaces[e.Namespace]
		before := a.items[e.Of][e.UID]
		if !before.Ended(now) {
			continue
		}
		after := s.intern(before.Rested())
		a.items[e.Of][e.UID] = after
		delete(s.expiring, e)
		s.replace(e.Namespace, e.Of, before, after)
		s.release(before)
		expired = append(expired, e)
	}
	return expired
}

// intern returns the one copy of an item, which one more object has.
func (s *Sums) intern(item quota.Item) *interned {
	key := keyOf(item)
	i := s.interned[key]
	if i == nil {
		i = &interned{Item: item, key: key}
		s.interned[key] = i
	}
	i.uses++
	return i
}

// release notes that an object does not have an item any more.
func (s *Sums) release(i *interned) {
	if i == nil {
		return
	}
	if i.uses--; i.uses == 0 {
		delete(s.interned, i.key)
	}
}

// item is what an object is charged with; nil for no object.
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

// Comparison is that of a live list of a namespace with what is known of it. Objects that go while the list is read
// may be in it.
type Comparison struct {
	sums      *Sums
	of        schema.GroupResource
	namespace string
	// gone are the objects that went while the server was being listed.
	gone map[types.UID]bool
}

// Compare begins a comparison. It is called before the namespace is listed live. The comparison has to be ended.
func (s *Sums) Compare(of schema.GroupResource, namespace string) *Comparison {
	c := &Comparison{s, of, namespace, map[types.UID]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comparisons[c] = struct{}{}
	return c
}

// End ends the comparison.
func (c *Comparison) End() {
	c.sums.mu.Lock()
	defer c.sums.mu.Unlock()
	delete(c.sums.comparisons, c)
}

// Lacks reports whether an object that was listed is not known, and has not been known either since the comparison
// began.
func (c *Comparison) Lacks(objects []metav1.PartialObjectMetadata) bool {
	c.sums.mu.Lock()
	defer c.sums.mu.Unlock()
	var known map[types.UID]*interned
	if a := c.sums.namespaces[c.namespace]; a != nil {
		known = a.items[c.of]
	}
	return slices.ContainsFunc(objects,
		func(o metav1.PartialObjectMetadata) bool { return known[o.UID] == nil && !c.gone[o.UID] })
}

// Empty reports whether nothing is known, and no comparison is in progress.
func (s *Sums) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.namespaces)+len(s.interned)+len(s.expiring)+len(s.comparisons) == 0
}
