package endpointslice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, to plan for them does not panic, and once the plan is carried out there is nothing left to do.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		service := &corev1.Service{}
		fill(service)
		service.Namespace, service.Name = "shop", "web"
		s := snapshotOf(service, nil)
		s.Max = rapid.IntRange(0, 3).Draw(t, "max")
		for i := range rapid.IntRange(0, 4).Draw(t, "slices") {
			o := &discoveryv1.EndpointSlice{}
			fill(o)
			o.Namespace, o.Name, o.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			if rapid.Bool().Draw(t, "ours") {
				o.Labels, o.DeletionTimestamp = theirs("", managedBy).Labels, nil
			}
			s.Slices = append(s.Slices, o)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			if rapid.Bool().Draw(t, "selected") {
				p.Labels = service.Spec.Selector
			}
			s.Pods = append(s.Pods, p)
		}
		s.Slices = stored(s)
		if _, n := carryOut(s, planSlices(now, s)); service.DeletionTimestamp == nil && n.creates+n.updates+n.deletes > 0 {
			t.Errorf("there is still something to do: %+v", n)
		}
	})
}
