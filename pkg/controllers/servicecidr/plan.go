package servicecidr

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// protection is the finalizer of ServiceCIDRs (SCC-3).
	protection plan.Protection = "networking.k8s.io/service-cidr-finalizer"
	// managedBy is the value of a label of the addresses that API servers allocate to Services (SCC-2).
	managedBy = "ipallocator.k8s.io"

	// grace is how long the API servers have to notice that a ServiceCIDR is being deleted, and to allocate no address
	// from it any more (SCC-6).
	grace = 10 * time.Second
	// lookAgain is when a ServiceCIDR is looked at again after a live read has shown an address that the caches do not:
	// its end may cause no event.
	lookAgain = 5 * time.Second
)

// allRanges names what is read live before a ServiceCIDR may go: all of them.
func allRanges() plan.Ref {
	return plan.Ref{Kind: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), All: true}
}

// allAddresses likewise. Of an address its name and its labels say all.
func allAddresses() plan.Ref {
	return plan.Ref{Kind: networkingv1.SchemeGroupVersion.WithKind("IPAddress"), All: true, Metadata: true}
}

// snapshot is a ServiceCIDR, and of one that is being deleted and has the finalizer also the addresses that it alone
// holds. Observe fills it from the caches, prove from live lists, and planFinalizer reads it. The object belongs to a
// shared cache.
type snapshot struct {
	CIDR   *networkingv1.ServiceCIDR
	Cached users
	// RangesRead says that the other ServiceCIDRs were read live, and Covered that those of them that stay hold all
	// addresses that it holds.
	RangesRead, Covered bool
	// Live are the addresses in a live list; nil if none was read.
	Live *users
}

// users are addresses that one ServiceCIDR holds and no other one that stays: how many, and the first of them for
// people.
type users struct {
	Count int
	First netip.Addr
}

// planFinalizer gives a ServiceCIDR its finalizer, and takes it off one that is being deleted when it alone holds no
// address of a Service (SCC-3, SCC-5, SCC-6).
func planFinalizer(now time.Time, s snapshot) plan.Plan {
	c := s.CIDR
	switch {
	case !protection.Due(c):
		return plan.Plan{Why: "there is nothing to do"}
	case c.DeletionTimestamp == nil:
		why := "the ServiceCIDR lacks the finalizer that protects it while Services have addresses in it"
		return plan.Plan{Why: why, Steps: []plan.Step{protection.Toggle(c, why)}}
	case s.inUse() > 0:
		p := plan.Plan{Why: "the ServiceCIDR is being deleted, and stays because of " + s.usedBy()}
		if s.Cached.Count == 0 {
			p.Requeue = lookAgain
		}
		return p
	}
	if wait := c.DeletionTimestamp.Add(grace).Sub(now); wait > 0 {
		return plan.Plan{Why: "the ServiceCIDR is being deleted and no address is in it alone: it stays until all " +
			"API servers have noticed the deletion", Requeue: min(wait, grace)}
	}
	switch {
	case !s.RangesRead:
		return plan.Plan{Why: "the ServiceCIDR stays until the others have been read live",
			Proof: []plan.Ref{allRanges()}}
	case !s.Covered && s.Live == nil:
		return plan.Plan{Why: "the ServiceCIDR stays until the addresses have been read live",
			Proof: []plan.Ref{allRanges(), allAddresses()}}
	}
	why := "the ServiceCIDR is being deleted and no address is in it alone: take its finalizer off"
	return plan.Plan{Why: why, Steps: []plan.Step{protection.Toggle(c, why)}}
}

// inUse returns how many addresses keep a ServiceCIDR that is being deleted: as they were read live, or else cached.
func (s snapshot) inUse() int {
	if s.Live != nil {
		return s.Live.Count
	}
	return s.Cached.Count
}

// usedBy names an address that keeps the ServiceCIDR.
func (s snapshot) usedBy() string {
	u := s.Cached
	if s.Live != nil {
		u = *s.Live
	}
	if u.Count == 1 {
		return fmt.Sprintf("the address %s, which no other ServiceCIDR holds", u.First)
	}
	return fmt.Sprintf("the address %s and %d others, which no other ServiceCIDR holds", u.First, u.Count-1)
}

// leaving reports whether a ServiceCIDR is being deleted, and stays because of the finalizer.
func leaving(c *networkingv1.ServiceCIDR) bool {
	return c.DeletionTimestamp != nil && protection.Due(c)
}

// stays reports whether a ServiceCIDR holds its addresses for others that are being deleted: it is not being deleted
// itself, and would stay if it was. Two that are deleted together cannot both go because of one another (SCC-20).
func stays(c *networkingv1.ServiceCIDR) bool { return c.DeletionTimestamp == nil && !protection.Due(c) }

// alone returns the addresses that a ServiceCIDR holds and none of the others that stay (SCC-5).
func alone(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, allocated tree) (u users) {
	others := rangesOfOthers(c, all)
	for _, p := range prefixes(c) {
		count, first := allocated.outside(p, others)
		if u.Count == 0 {
			u.First = first
		}
		u.Count += count
	}
	return u
}

// covered reports whether each range of a ServiceCIDR lies within one of another that stays (SCC-5).
func covered(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR) bool {
	others, own := rangesOfOthers(c, all), prefixes(c)
	return len(own) == len(c.Spec.CIDRs) && !slices.ContainsFunc(own, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(others, func(o netip.Prefix) bool {
			return o.Bits() <= p.Bits() && o.Contains(p.Addr())
		})
	})
}

// rangesOfOthers returns the ranges of the other ServiceCIDRs that stay.
func rangesOfOthers(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR) (ranges []netip.Prefix) {
	for _, other := range all {
		if other.Name != c.Name && stays(other) {
			ranges = append(ranges, prefixes(other)...)
		}
	}
	return ranges
}

// prefixes returns the ranges of a ServiceCIDR. What is none holds no address.
func prefixes(c *networkingv1.ServiceCIDR) (ranges []netip.Prefix) {
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, p.Masked())
		}
	}
	return ranges
}
