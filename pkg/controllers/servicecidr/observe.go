package servicecidr

import (
	"context"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	ranges    informers.IndexedStore[*networkingv1.ServiceCIDR] // with an index of those that are being deleted
	addresses informers.Store[*networkingv1.IPAddress]

	// allocated is the term: the addresses that API servers have allocated to Services.
	allocated *reconcile.Term[tree]
}

// newCaches makes the term that goes with the caches.
func newCaches(ranges informers.IndexedStore[*networkingv1.ServiceCIDR],
	addresses informers.Store[*networkingv1.IPAddress]) *caches {
	k := &caches{ranges: ranges, addresses: addresses}
	k.allocated = reconcile.NewTerm(reconcile.TermOptions[tree]{Begin: k.begin, Next: next})
	return k
}

// begin returns the addresses that the cache has.
func (k *caches) begin() (t tree) {
	for o := range k.addresses.All() {
		if a, ok := allocatedAddress(o); ok {
			t = t.with(a)
		}
	}
	return t
}

// next returns the addresses after one has come or gone, or is allocated to a Service now, or not any more.
func next(t tree, before, after plan.Object) tree {
	if a, ok := allocatedAddress(before); ok {
		t = t.without(a)
	}
	if a, ok := allocatedAddress(after); ok {
		t = t.with(a)
	}
	return t
}

// anyBeingDeleted is the value of the index.
const anyBeingDeleted = "yes"

// beingDeleted is the index of ServiceCIDRs.
func beingDeleted(c *networkingv1.ServiceCIDR) []string {
	if c.DeletionTimestamp == nil {
		return nil
	}
	return []string{anyBeingDeleted}
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, struct{}]

// observe finds a ServiceCIDR, and of one that is being deleted also the addresses that it alone holds.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o observation, err error) {
	c := k.ranges.Get("", r.Key.Name)
	if c == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.CIDR = true, c
	if !leaving(c) {
		return o, nil
	}
	allocated, _ := k.allocated.Get()
	o.Snapshot.Cached = alone(c, slices.Collect(k.ranges.All()), allocated)
	return o, nil
}

// prove counts the addresses among those that were read live. If the other ServiceCIDRs hold whatever there may be, no
// address was read.
func prove(o observation, proof reconcile.Proof) observation {
	found, ok := proof.Read[allRanges()]
	if !ok || found.Err != nil {
		return o
	}
	all := make([]*networkingv1.ServiceCIDR, len(found.Objects))
	for i, other := range found.Objects {
		all[i] = other.(*networkingv1.ServiceCIDR)
	}
	o.Snapshot.RangesRead, o.Snapshot.Covered = true, covered(o.Snapshot.CIDR, all)
	addresses, ok := proof.Read[allAddresses()]
	if !ok || addresses.Err != nil {
		return o
	}
	var allocated tree
	for _, address := range addresses.Objects {
		if a, ok := allocatedAddress(address); ok {
			allocated = allocated.with(a)
		}
	}
	live := alone(o.Snapshot.CIDR, all, allocated)
	o.Snapshot.Live = &live
	return o
}

// enqueuedByRange returns a ServiceCIDR that has changed, and those that are being deleted and overlap it: what others
// hold decides about them (SCC-2).
func (k *caches) enqueuedByRange(before, after plan.Object) []plan.Key {
	keys := informers.Itself(before, after)
	for _, other := range k.ranges.By(anyBeingDeleted) {
		if key := plan.KeyOf(other); !slices.Contains(keys, key) && (overlap(other, before) || overlap(other, after)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// enqueuedByAddress returns the ServiceCIDRs that are being deleted and hold an address which has come or gone (SCC-2).
func (k *caches) enqueuedByAddress(before, after plan.Object) (keys []plan.Key) {
	was, did := allocatedAddress(before)
	is, does := allocatedAddress(after)
	if did == does {
		return nil
	}
	if does {
		was = is
	}
	for _, c := range k.ranges.By(anyBeingDeleted) {
		one := netip.PrefixFrom(was, was.BitLen())
		if slices.ContainsFunc(prefixes(c), func(p netip.Prefix) bool { return holds(p, one) }) {
			keys = append(keys, plan.KeyOf(c))
		}
	}
	return keys
}

// overlap reports whether an object is a ServiceCIDR with a range that has an address in common with one of c.
func overlap(c *networkingv1.ServiceCIDR, o plan.Object) bool {
	other, ok := o.(*networkingv1.ServiceCIDR)
	return ok && slices.ContainsFunc(prefixes(c), func(p netip.Prefix) bool {
		return slices.ContainsFunc(prefixes(other), p.Overlaps)
	})
}

// allocatedAddress returns the address that an IPAddress stands for, if an API server has allocated it to a Service.
// Those that others make keep no ServiceCIDR (SCC-2).
func allocatedAddress(o plan.Object) (a netip.Addr, ok bool) {
	if !isAddress(o) || o.GetLabels()[networkingv1.LabelManagedBy] != managedBy {
		return a, false
	}
	a, err := netip.ParseAddr(o.GetName())
	return a.WithZone(""), err == nil
}

// isAddress reports whether there is an object, of a cache or read live.
func isAddress(o plan.Object) bool {
	switch o := o.(type) {
	case *networkingv1.IPAddress:
		return o != nil
	case *metav1.PartialObjectMetadata:
		return o != nil
	}
	return false
}
