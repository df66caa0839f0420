package nodeipam

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the nodes are, and whatever ranges they claim to have, planning does not panic. What is given is a block of each pool, to
// nodes that have none and are not being deleted.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s := draw(t)
		for i := range rapid.IntRange(1, 4).Draw(t, "any nodes") {
			n := &corev1.Node{}
			fill(n)
			n.Name, n.UID = fmt.Sprint("any-", i), types.UID(fmt.Sprint("any-", i))
			switch rapid.IntRange(0, 4).Draw(t, "ranges") {
			case 0:
				n.Spec.PodCIDRs = nil
			case 1:
				n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, "10.0.0.0/24", "10.0.0.0/24", "::/0", "0.0.0.0/0")
			case 2:
				n.Spec.PodCIDRs, n.DeletionTimestamp = nil, &metav1.Time{Time: epoch}
			}
			s.Nodes = append(s.Nodes, n)
		}
		if rapid.Bool().Draw(t, "seen before") {
			d, _ := planRanges(epoch, s)
			s.Memory = *remember(epoch, s, d, plan.Outcome{})
		}
		d, p := planRanges(epoch, s)
		if p.Requeue < 0 || p.Why == "" || d.Waiting < 0 || d.Wrong > len(s.Nodes) {
			t.Errorf("%+v: %q, again in %v", d, p.Why, p.Requeue)
		}
		for _, step := range p.Steps {
			each, _ := step.(plan.Each)
			for _, sequence := range each.Sequences {
				c := sequence[0].(plan.Change)
				before, after := c.Old.(*corev1.Node), c.New.(*corev1.Node)
				if len(before.Spec.PodCIDRs) > 0 || before.DeletionTimestamp != nil || len(after.Spec.PodCIDRs) != len(s.Pools) {
					t.Fatalf("%s has %v and gets %v", before.Name, before.Spec.PodCIDRs, after.Spec.PodCIDRs)
				}
				for i, text := range after.Spec.PodCIDRs {
					if r, err := netip.ParsePrefix(text); err != nil || !s.Pools[i].has(r) || r.Bits() != s.Pools[i].Bits {
						t.Errorf("%s gets %s: %v", before.Name, text, err)
					}
				}
			}
		}
	})
}
