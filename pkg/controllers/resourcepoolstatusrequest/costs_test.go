package resourcepoolstatusrequest

import (
	"fmt"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	cputime "github.com/standalone-kcm/controller-manager/internal/testing/costs"
)

// The cost of an answer grows with what it is about, and not with the product of two of its sizes. If it did, each of these would take
// more than a second.
func TestCostOfAnAnswer(t *testing.T) {
	slicesOf := func(n, devices int, pool func(i int) string) (all []*resourcev1.ResourceSlice, claims []*resourcev1.ResourceClaim) {
		for i := range n {
			s := newSlice(fmt.Sprint("s-", i), pool(i))
			for d := range devices {
				name := fmt.Sprint(i, "-", d)
				has(name)(s)
				claims = append(claims, newClaim(fmt.Sprint("c-", name), pool(i), name))
			}
			all = append(all, s)
		}
		return all, claims
	}
	one := func(int) string { return "fabric" }
	each := func(i int) string { return fmt.Sprint("node-", i) }
	for name, c := range map[string]struct {
		slices, devices, rules int
		pool                   func(i int) string
	}{
		"many pools with many uses": {1000, 32, 0, each},
		"a pool of many slices":     {4000, 16, 0, one},
		"a pool with many rules":    {1000, 16, 2000, one},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRequest()
			r.Spec.Limit = ptr.To[int32](1000)
			s := snapshot{Request: r, Since: epoch.Add(-time.Hour)}
			all, claims := slicesOf(c.slices, c.devices, c.pool)
			if c.rules > 0 {
				claims = nil
			}
			var rules []*resourcev1.DeviceTaintRule
			for i := range c.rules {
				rules = append(rules, &resourcev1.DeviceTaintRule{Spec: resourcev1.DeviceTaintRuleSpec{
					DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: &r.Spec.Driver, Device: ptr.To(fmt.Sprint("other-", i))},
					Taint:          resourcev1.DeviceTaint{Key: "k", Effect: noExecute}}})
			}
			took := cputime.CPU(func() {
				s.findSlices(all)
				s.findUses(claims)
				s.findRules(rules)
				if d, p := planAnswer(epoch, s); d == nil {
					t.Error(p.Why)
				}
			})
			if took > time.Second/2 {
				t.Errorf("took %s of CPU", took)
			}
		})
	}
}
