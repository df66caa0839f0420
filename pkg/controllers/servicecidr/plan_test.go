package servicecidr

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func some(n int, first string) users { return users{Count: n, First: netip.MustParseAddr(first)} }

// A row is a sentence. want are the finalizers that are written; nil for no write. asks is what is to be read live.
func TestPlan(t *testing.T) {
	slash16 := []string{"10.1.0.0/16"}
	gone := newCIDR(slash16, protected, doomed)
	used, none := some(3, "10.1.0.9"), users{}
	for _, c := range []struct {
		name string
		seen snapshot
		want []string
		asks []plan.Ref
		next time.Duration
		why  string // part of it
	}{
		{name: "SCC-3 a ServiceCIDR that lacks the finalizer gets it", seen: snapshot{CIDR: newCIDR(slash16)}, want: []string{finalizer}},
		{name: "SCC-3 other finalizers stay", want: []string{"example.com/a", finalizer},
			seen: snapshot{CIDR: newCIDR(slash16, func(c *networkingv1.ServiceCIDR) { c.Finalizers = []string{"example.com/a"} })}},
		{name: "SCC-3 one that has it", seen: snapshot{CIDR: newCIDR(slash16, protected)}, why: "there is nothing to do"},
		{name: "one that is being deleted gets none", seen: snapshot{CIDR: newCIDR(slash16, doomed)}, why: "there is nothing to do"},
		{name: "SCC-1 SCC-5 an address keeps it", seen: snapshot{CIDR: gone, Cached: some(1, "10.1.0.9")},
			why: "stays because of the address 10.1.0.9, which no other ServiceCIDR holds"},
		{name: "SCC-5 many do", seen: snapshot{CIDR: gone, Cached: used}, why: "the address 10.1.0.9 and 2 others"},
		{name: "SCC-6 the API servers have ten seconds", why: "until all API servers have noticed", next: 4 * time.Second,
			seen: snapshot{CIDR: newCIDR(slash16, protected, deletedAt(epoch.Add(-6*time.Second)))}},
		{name: "SCC-6 never more, whatever the clock says", why: "until all API servers have noticed", next: 10 * time.Second,
			seen: snapshot{CIDR: newCIDR(slash16, protected, deletedAt(epoch.Add(time.Hour)))}},
		{name: "first the others are read live", seen: snapshot{CIDR: gone}, asks: []plan.Ref{allRanges()},
			why: "the others have been read"},
		{name: "then the addresses", seen: snapshot{CIDR: gone, RangesRead: true}, asks: []plan.Ref{allRanges(), allAddresses()},
			why: "the addresses have been read"},
		{name: "SCC-5 but not if others hold all", seen: snapshot{CIDR: gone, RangesRead: true, Covered: true}, want: []string{}},
		{name: "SCC-5 nothing keeps it", seen: snapshot{CIDR: gone, RangesRead: true, Live: &none}, want: []string{}},
		{name: "the caches lack an address", seen: snapshot{CIDR: gone, RangesRead: true, Live: &used}, next: 5 * time.Second,
			why: "the address 10.1.0.9 and 2 others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.seen.CIDR.DeepCopy()
			p := planFinalizer(epoch, c.seen)
			if p.Why == "" || !strings.Contains(p.Why, c.why) || p.Requeue != c.next || !slices.Equal(p.Proof, c.asks) {
				t.Errorf("%+v", p)
			}
			if diff := cmp.Diff(c.want, written(t, p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.seen.CIDR); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// written returns the finalizers that a plan writes, and checks that it changes nothing else.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) []string {
	if p.Empty() {
		return nil
	}
	step := p.Steps[0].(plan.Change)
	before, after := step.Old.(*networkingv1.ServiceCIDR).DeepCopy(), step.New.(*networkingv1.ServiceCIDR)
	before.Finalizers = after.Finalizers
	if diff := cmp.Diff(before, after); diff != "" || len(p.Steps) != 1 {
		t.Errorf("more is changed than finalizers: %s", diff)
	}
	return append([]string{}, after.Finalizers...)
}

// What an address is in, and who holds it besides.
func TestAlone(t *testing.T) {
	const small, large, twin = "10.1.0.0/16", "10.0.0.0/8", "fd00::/112"
	leaves := func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR { doomed(c); return c }
	bare := func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR { c.Finalizers = nil; return c }
	type others = []*networkingv1.ServiceCIDR
	for _, c := range []struct {
		name    string
		own     []string
		others  others
		count   int
		covered bool
	}{
		{"SCC-5 no other", []string{small}, nil, 2, false},
		{"SCC-5 another without overlap", []string{small}, others{other("b", "10.2.0.0/16")}, 2, false},
		{"SCC-5 a larger one", []string{small}, others{other("b", large)}, 0, true},
		{"SCC-5 an equal one", []string{small}, others{other("b", small)}, 0, true},
		{"SCC-5 a smaller one holds one of the addresses", []string{small}, others{other("b", "10.1.7.0/24")}, 1, false},
		{"SCC-5 two that hold both", []string{small}, others{other("b", "10.1.7.0/24"), other("c", "10.1.0.0/24")}, 0, false},
		{"SCC-20 one that is being deleted holds nothing", []string{small}, others{leaves(other("b", large))}, 2, false},
		{"one without the finalizer would not stay", []string{small}, others{bare(other("b", large))}, 2, false},
		{"SCC-5 both families", []string{small, twin}, others{other("b", large)}, 1, false},
		{"SCC-5 both families in two others", []string{small, twin}, others{other("b", large), other("c", "fd00::/64")}, 0, true},
		{"what is no range holds nothing", []string{small, "x"}, others{other("b", large)}, 0, false},
		{"it does not hold them for itself", []string{small}, others{other("extra", small)}, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := newCIDR(c.own, protected, doomed)
			all := append(c.others, own)
			u := alone(own, all, treeOf("10.1.0.0", "10.1.0.9", "10.1.7.7", "10.2.0.1", "fd00::1"))
			if u.Count != c.count || covered(own, all) != c.covered || (u.Count > 0) != u.First.IsValid() {
				t.Errorf("%+v, covered: %t", u, covered(own, all))
			}
		})
	}
}

// A row is a sentence. want is the condition that is written.
func TestReport(t *testing.T) {
	slash16 := []string{"10.1.0.0/16"}
	gone := func(more ...edit) *networkingv1.ServiceCIDR {
		return newCIDR(slash16, append(more, protected, doomed)...)
	}
	live := some(1, "10.1.0.9")
	for _, c := range []struct {
		name string
		seen snapshot
		did  error
		want edit // nil for no write
	}{
		{"SCC-3 one with the finalizer is ready", snapshot{CIDR: newCIDR(slash16, protected)}, nil, ready},
		{"SCC-3 one without it is not ready yet", snapshot{CIDR: newCIDR(slash16)}, nil, nil},
		{"SCC-4 it says so already", snapshot{CIDR: newCIDR(slash16, protected, ready)}, nil, nil},
		{"SCC-4 with another message", snapshot{CIDR: newCIDR(slash16, protected, condition("True", "", "yes"))}, nil, ready},
		{"SCC-3 the finalizer has failed", snapshot{CIDR: newCIDR(slash16)}, plan.ErrStale, nil},
		{"SCC-5 addresses keep it", snapshot{CIDR: gone(ready), Cached: some(2, "10.1.0.9")}, nil, terminating},
		{"SCC-5 a live list shows one", snapshot{CIDR: gone(ready), RangesRead: true, Live: &live}, nil, terminating},
		{"SCC-4 it says that already", snapshot{CIDR: gone(terminating), Cached: some(2, "10.1.0.9")}, nil, nil},
		{"SCC-6 one that waits for its end", snapshot{CIDR: gone(ready)}, nil, nil},
		{"one that others keep", snapshot{CIDR: newCIDR(slash16, doomed), Cached: some(2, "10.1.0.9")}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reportReady(epoch, c.seen, plan.Outcome{Err: c.did})
			if c.want == nil {
				if !p.Empty() {
					t.Error(p.Why)
				}
				return
			}
			step := p.Steps[0].(plan.Change)
			want := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "extra", UID: "uid-extra"}}
			c.want(want)
			got := step.New.DeepCopyObject().(*networkingv1.ServiceCIDR)
			changed := !strings.HasPrefix(c.name, "SCC-4") // of the status of the condition
			if at := got.Status.Conditions[0].LastTransitionTime; changed != at.Time.Equal(epoch) {
				t.Errorf("since %v", at)
			}
			got.Status.Conditions[0].LastTransitionTime = want.Status.Conditions[0].LastTransitionTime
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if step.Subresource != "status" || *step.Apply != (plan.Apply{FieldManager: "service-cidr-controller", Force: true}) {
				t.Errorf("%+v", step)
			}
			event := plan.Event{}
			if c.seen.CIDR.DeletionTimestamp == nil {
				event = plan.Event{Type: "Warning", Reason: "KubernetesServiceCIDRError",
					Message: "The ServiceCIDR Status can not be set to Ready=True: {error}"}
			}
			if step.Events.Failed != event {
				t.Errorf("%+v", step.Events)
			}
		})
	}
}
