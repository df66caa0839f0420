package ephemeralvolume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and no claim is created twice or for another pod.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Int64().Draw(t, "seed")
		fill := plantest.Anything(seed)
		p := &corev1.Pod{}
		fill(p)
		p.Namespace, p.Name, p.UID = "shop", "web", "uid-web"
		for i := range p.Spec.Volumes {
			p.Spec.Volumes[i].Name = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name")
		}
		k := newCaches(t, p)
		for _, name := range ephemeralClaims(p) {
			c := &corev1.PersistentVolumeClaim{}
			fill(c)
			c.Namespace, c.Name = "shop", name
			if rapid.Bool().Draw(t, "exists") {
				if err := k.claims.Informer().GetIndexer().Add(c); err != nil {
					t.Fatal(err)
				}
			}
			k.enqueuedByClaim(nil, c)
			k.enqueuedByClaim(c, c)
			k.enqueuedByClaim(c, nil)
		}
		enqueuedByPod(nil, p)
		enqueuedByPod(p, nil)
		o, err := k.observe(t.Context(), request("web"))
		if err != nil {
			t.Fatal(err)
		}
		before := plantest.Restored(t, o.Snapshot)
		d, planned := planClaims(epoch, o.Snapshot)
		remember(epoch, o.Snapshot, d, plan.Outcome{})
		live(o.Snapshot)
		once := map[string]bool{}
		for _, c := range created(planned) {
			if once[c.Name] || o.Snapshot.Claims[c.Name] != nil || !metav1.IsControlledBy(c, p) {
				t.Errorf("%s is created", c.Name)
			}
			once[c.Name] = true
		}
		if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}
