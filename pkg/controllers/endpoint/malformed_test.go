package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, to plan for them does not panic, and once the plan is carried out there is nothing left to do.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		service, endpoints := &corev1.Service{}, &corev1.Endpoints{}
		fill(service)
		fill(endpoints)
		if !rapid.Bool().Draw(t, "endpoints exist") {
			endpoints = nil
		}
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			if rapid.Bool().Draw(t, "selected") {
				p.Labels = service.Spec.Selector
			}
			pods = append(pods, p)
		}
		s := snapshotOf(service, endpoints, pods...)
		if after := stored(s); after != nil {
			s.Endpoints = after
			if p := planned(s); !p.Empty() {
				t.Errorf("there is still something to do: %s", p.Why)
			}
		}
	})
}
