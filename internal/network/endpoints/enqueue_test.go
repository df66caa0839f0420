package endpoints

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Thousands of services may select a pod, whose changes are handled beside those of all tenants.
func TestCostsOfServicesOfAPod(t *testing.T) {
	var services []*corev1.Service
	for i := range 20_000 {
		services = append(services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)}})
	}
	const all, but = 20_000, 3 // one label decides about some of them
	selecting := func(_ string, labels map[string]string) []*corev1.Service {
		if labels["a"] == "" {
			return append([]*corev1.Service(nil), services[but:]...)
		}
		return append([]*corev1.Service(nil), services...)
	}
	pod := func(labels map[string]string, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "p", Labels: labels}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	a, none := map[string]string{"a": "b"}, map[string]string{"c": "d"}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          int
	}{
		"a label that some ask for":  {pod(a, true), pod(none, true), but},
		"a label that nobody reads":  {pod(a, true), pod(map[string]string{"a": "b", "c": "d"}, true), 0},
		"it is not ready, and moves": {pod(a, true), pod(none, false), all},
	} {
		var keys []plan.Key
		if took := costs.CPU(func() { keys = Enqueued(c.before, c.after, selecting) }); costs.Exceeds(took, 100*time.Millisecond) {
			t.Errorf("%s: took %v", name, took)
		}
		if len(keys) != c.want {
			t.Errorf("%s: %d services, want %d", name, len(keys), c.want)
		}
	}
}
