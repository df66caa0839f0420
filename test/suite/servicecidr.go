package suite

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const rangeProtection = "networking.k8s.io/service-cidr-finalizer"

func serviceCIDREntry() Entry {
	return Entry{
		Controller: "service-cidr-controller",
		Operations: map[string]Operation{
			"servicerange": serviceRange, // NAME range=10.0.0.0/24: a ServiceCIDR, of one or two ranges; do=delete, strip
			"address":      address,      // IP: one that an API server has allocated to a Service; do=delete, disown
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			// Ranges and addresses are the same for all apps, so that ranges overlap.
			block := g.IntN(2)
			narrow := fmt.Sprintf("100.64.%d.0/24", block)
			name, ip := fmt.Sprintf("range-%s-%d", app, g.IntN(2)), fmt.Sprintf("100.64.%d.%d", block, 1+g.IntN(3))
			g.Add(at, "servicerange %s range=%s", name, workload.Pick(g, narrow, narrow, "100.64.0.0/16"))
			g.Add(at+g.Early(), "address %s", ip)
			if g.IntN(4) == 0 {
				g.Add(soon, "servicerange %s do=strip", name)
				return
			}
			g.Add(soon+g.Early(), "servicerange %s do=delete", name)
			switch g.IntN(4) {
			case 0: // the address keeps it
			case 1:
				g.Add(soon+2*g.Early(), "servicerange next-%s range=%s", name, narrow)
			default:
				g.Add(soon+g.Early(), "address %s do=%s", ip, workload.Pick(g, "delete", "disown"))
			}
		}}},
		Settled: serviceRangesSettled,
		Scenarios: []Scenario{{Name: "ranges of addresses are deleted while they are used", Play: func(u *User) {
			u.usedRanges(3)
			u.doomRanges(3)
			u.rangesGo(3)
		}}},
		Malformed: map[string]string{
			"servicecidrs/nowhere": `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"finalizers":["",""],${META}},
				"spec":{"cidrs":[]},"status":{"conditions":[{"type":"Ready","status":"","reason":"/","message":""}]}}`,
		},
		Mutants: serviceCIDRMutants,
		Budgets: []Budget{{
			// each finalizer, on and off, and the condition, which is True and then False
			Name: "20 ServiceCIDRs are made and deleted, and then the addresses in them", Floor: floor.Writes{Status: 40, Other: 40},
			Do: func(u *User) {
				u.usedRanges(20)
				u.doomRanges(20)
				u.rangesGo(20)
			},
		}},
	}
}

// newServiceRange returns a ServiceCIDR of one or two ranges.
func (u *User) newServiceRange(name string, ranges ...string) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
	u.mark(c)
	return c
}

// newAddress returns an address as an API server allocates it to a Service.
func (u *User) newAddress(ip string) *networkingv1.IPAddress {
	a := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: u.Namespace,
			Name: "web"}},
	}
	u.mark(a)
	return a
}

// block returns the range of the ServiceCIDR of a number, and an address in it. Each user of a cluster has others. They are IPv6, which the
// API servers of the suites give no Service: an IPv4 address from a range that is ready may be given to any Service of the cluster.
func (u *User) block(i int) (within, ip string) {
	h := fnv.New32a()
	h.Write([]byte(u.Namespace))
	bytes := [16]byte{0: 0xfd, 1: 0x64, 15: byte(8 * i)}
	binary.BigEndian.PutUint32(bytes[8:], h.Sum32())
	first := netip.AddrFrom16(bytes)
	return netip.PrefixFrom(first, 125).String(), first.Next().String()
}

// usedRanges makes ServiceCIDRs that are ready, and an address in each.
func (u *User) usedRanges(n int) {
	u.Helper()
	u.Each(n, func(i int) error {
		name := fmt.Sprint("range-", i)
		within, ip := u.block(i)
		u.Create(u.newServiceRange(name, within))
		u.Create(u.newAddress(ip))
		u.awaitRange(name, metav1.ConditionTrue)
		return nil
	})
}

// doomRanges deletes ServiceCIDRs, which stay as long as they are used.
func (u *User) doomRanges(n int) {
	u.Helper()
	for i := range n {
		Remove[*networkingv1.ServiceCIDR](u, u.unique(fmt.Sprint("range-", i)))
	}
	for i := range n {
		u.awaitRange(fmt.Sprint("range-", i), metav1.ConditionFalse)
	}
}

func (u *User) awaitRange(name string, ready metav1.ConditionStatus) {
	u.Helper()
	Await(u, u.unique(name), func(c *networkingv1.ServiceCIDR) error {
		return unless(meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady, ready), c.Status)
	})
}

// rangesGo deletes the addresses, so that the ServiceCIDRs go.
func (u *User) rangesGo(n int) {
	u.Helper()
	for i := range n {
		_, ip := u.block(i)
		Remove[*networkingv1.IPAddress](u, ip)
	}
	for i := range n {
		AwaitGone[*networkingv1.ServiceCIDR](u, u.unique(fmt.Sprint("range-", i)))
	}
}

func serviceRange(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*networkingv1.ServiceCIDR](u, name)
	case "strip":
		return edit(u, name, func(c *networkingv1.ServiceCIDR) { c.Finalizers = nil })
	}
	within, _ := l.Get("range")
	return create(u, u.newServiceRange(l.Arg(0), strings.Split(within, ",")...))
}

func address(u *User, l script.Line) error {
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*networkingv1.IPAddress](u, l.Arg(0))
	case "disown": // it is nobody's that API servers know of
		return edit(u, l.Arg(0), func(a *networkingv1.IPAddress) { delete(a.Labels, networkingv1.LabelManagedBy) })
	}
	return create(u, u.newAddress(l.Arg(0)))
}

// serviceRangesSettled says which ServiceCIDRs lack the finalizer or the condition, and which should be gone.
func serviceRangesSettled(s *View) (wrong []string) {
	addresses, ranges := all[*networkingv1.IPAddress](s), subjects[*networkingv1.ServiceCIDR](s)
	for _, c := range ranges {
		has := slices.Contains(c.Finalizers, rangeProtection)
		ready := meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
		user := userOfRange(c, ranges, addresses)
		switch {
		case c.DeletionTimestamp == nil && !(has && ready): // SCC-3
			wrong = append(wrong, fmt.Sprintf("the ServiceCIDR %s is ready: %t, and has the finalizer: %t", c.Name, ready, has))
		case c.DeletionTimestamp != nil && has && user == "": // SCC-5
			wrong = append(wrong, fmt.Sprintf("the ServiceCIDR %s is still there, and no address is in it alone", c.Name))
		case c.DeletionTimestamp != nil && has && ready: // SCC-5
			wrong = append(wrong, fmt.Sprintf("the ServiceCIDR %s is being deleted, stays because of %s, and says that it is ready",
				c.Name, user))
		}
	}
	return wrong
}

// userOfRange returns an address that a ServiceCIDR holds, and none of those that are not being deleted; empty if there is none.
func userOfRange(c *networkingv1.ServiceCIDR, ranges []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) string {
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.Name)
		if err != nil || a.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io" || !inRange(c, ip) {
			continue
		}
		if !slices.ContainsFunc(ranges, func(o *networkingv1.ServiceCIDR) bool { return o.DeletionTimestamp == nil && inRange(o, ip) }) {
			return a.Name
		}
	}
	return ""
}

// inRange reports whether Services may have an address of a ServiceCIDR.
func inRange(c *networkingv1.ServiceCIDR, ip netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(ip) && ip != p.Masked().Addr() && !(ip.Is4() && !p.Contains(ip.Next()))
	})
}

const (
	rangeFolder = "pkg/controllers/servicecidr/"
	usedRange   = withoutElection + `
			at 5s   servicerange a range=100.64.0.0/24
			at 10s  address 100.64.0.1`
	deletedRange = "\n\t\t\tat 40s  servicerange a do=delete"
)

var serviceCIDRMutants = []Mutant{
	{
		Name:   "a range goes with its addresses",
		Edits:  []Edit{{rangeFolder + "plan.go", "u.Count += count", "u.Count += min(count, 0)"}},
		Script: usedRange + deletedRange,
		Oracle: "S36",
	},
	{
		Name:  "two ranges that are deleted go because of one another",
		Edits: []Edit{{rangeFolder + "plan.go", "return c.DeletionTimestamp == nil && !protection.Due(c)", `return protection != ""`}},
		Script: withoutElection + `
			at 5s   servicerange a range=100.64.0.0/24,fd00::/112
			at 5s   servicerange b range=100.64.0.0/24,fd01::/112
			at 10s  address 100.64.0.1
			at 10s  address fd00::1
			at 10s  address fd01::1
			at 40s  servicerange a do=delete
			at 40s  servicerange b do=delete
			at 90s  address fd00::1 do=delete
			at 90s  address fd01::1 do=delete`,
		Oracle: "S36",
	},
	{
		Name:   "a range goes before the API servers have noticed its deletion",
		Edits:  []Edit{{rangeFolder + "plan.go", "Add(grace).Sub(now); wait > 0 {", "Add(grace).Sub(now); wait > grace {"}},
		Script: withoutElection + "\n\t\t\tat 5s   servicerange a range=100.64.0.0/24" + deletedRange,
		Oracle: "S36",
	},
	{
		Name: "a range goes on the word of caches that lag",
		Edits: []Edit{{rangeFolder + "plan.go", "case !s.RangesRead:", "case len(c.Name) > 253:"},
			{rangeFolder + "plan.go", "case !s.Covered && s.Live == nil:", "case len(c.Name) > 254:"}},
		Script: withoutElection + `
			at 5s   servicerange a range=100.64.0.0/24
			at 8s   fault m0 freeze ipaddresses for=60s
			at 10s  address 100.64.0.1` + deletedRange,
		Oracle: "S36",
	},
	{
		Name:   "the end of an address does not let its range go",
		Edits:  []Edit{{rangeFolder + "observe.go", "if did == does {", "if did || did == does {"}},
		Script: usedRange + deletedRange + "\n\t\t\tat 90s  address 100.64.0.1 do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:   "a range that takes the addresses does not let the other go",
		Edits:  []Edit{{rangeFolder + "observe.go", "!slices.Contains(keys, key) && (overlap", "slices.Contains(keys, key) && (overlap"}},
		Script: usedRange + deletedRange + "\n\t\t\tat 90s  servicerange b range=100.64.0.0/16",
		Oracle: SettledOracle,
	},
}
