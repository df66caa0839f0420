package oracle

import (
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

const (
	rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"
	// The time that API servers have to notice the deletion of a ServiceCIDR (SCC-6). Its time is one in whole seconds.
	noticed = 9 * time.Second
)

// RangesStayWhileUsed is S36: the finalizer of a ServiceCIDR that is being deleted comes off no sooner than the API servers have noticed
// (SCC-6), and not while an address of a Service is in it that was there by then, unless another ServiceCIDR has it in its range that is
// not being deleted, or was not within the lag (SCC-5, SCC-20).
func RangesStayWhileUsed() Oracle {
	const claim = "ServiceCIDRs stay while they alone hold an address of a Service, and until API servers have noticed"
	return Oracle{"S36", claim, func(j *judge) hooks {
		s := &rangeJudge{judge: j, since: map[string]time.Time{}, ranges: map[string]*networkingv1.ServiceCIDR{},
			ends: map[string]time.Time{}}
		return hooks{before: s.before, after: s.after}
	}}
}

// rangeJudge is what S36 remembers.
type rangeJudge struct {
	*judge
	since  map[string]time.Time                 // when addresses became those of Services
	ranges map[string]*networkingv1.ServiceCIDR // all, also those that are gone
	ends   map[string]time.Time                 // when they were deleted
}

func (s *rangeJudge) before(r *revision) {
	c, ok := r.old.(*networkingv1.ServiceCIDR)
	if !ok || !r.manager || !r.loses(rangeFinalizer) {
		return
	}
	if c.DeletionTimestamp == nil {
		s.judges(false)
		s.report(r, nil, "the ServiceCIDR is not being deleted, and loses its finalizer")
		return
	}
	if early := c.DeletionTimestamp.Add(noticed).Sub(s.now); early > 0 {
		s.judges(false)
		s.report(r, nil, "the ServiceCIDR may go %v before the API servers have noticed its deletion", early)
		return
	}
	excused := false
	for text, since := range s.since {
		if ip, err := netip.ParseAddr(text); err != nil || !serves(c, ip) || s.held(r, ip) {
			continue
		}
		if !since.Before(c.DeletionTimestamp.Add(noticed)) { // no API server has allocated it
			excused = true
			continue
		}
		s.judges(false)
		s.report(r, nil, "the ServiceCIDR may go, though the address %s is in no other one that stays", text)
		return
	}
	s.judges(excused)
}

// held reports whether another ServiceCIDR has an address that is not being deleted, or was not a moment ago.
func (s *rangeJudge) held(r *revision, ip netip.Addr) bool {
	for name, o := range s.ranges {
		end := s.ends[name]
		if name != r.Object.GetName() && serves(o, ip) && (end.IsZero() || s.recent(r, end, ServiceCIDR)) {
			return true
		}
	}
	return false
}

// serves reports whether Services may have an address of a ServiceCIDR: it is neither the first one of a range nor, in IPv4, the last.
func serves(c *networkingv1.ServiceCIDR, ip netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(ip) && ip != p.Masked().Addr() && !(ip.Is4() && !p.Contains(ip.Next()))
	})
}

// after notes which addresses and ServiceCIDRs there are.
func (s *rangeJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *networkingv1.IPAddress:
		if r.Type == Deleted || o.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io" {
			delete(s.since, o.Name)
		} else if _, known := s.since[o.Name]; !known {
			s.since[o.Name] = s.now
		}
	case *networkingv1.ServiceCIDR:
		was := s.ranges[o.Name]
		s.ranges[o.Name] = o
		switch ending := o.DeletionTimestamp != nil || r.Type == Deleted; {
		case !ending:
			delete(s.ends, o.Name)
		case s.ends[o.Name].IsZero() || was == nil || was.UID != o.UID:
			s.ends[o.Name] = s.now
		}
	}
}
