package pvcprotection

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, nothing panics, nothing that was observed is changed, and what is written leaves nothing to do.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		o := newObserver(t)
		for i := range rapid.IntRange(0, 3).Draw(t, "claims") {
			c := newClaim("")
			fill(c)
			c.Namespace, c.Name, c.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			if rapid.Bool().Draw(t, "protected") {
				c.Finalizers = append(c.Finalizers, finalizer)
			}
			o.cache(t, c)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = "shop", fmt.Sprint(i), types.UID(fmt.Sprint(i))
			if rapid.Bool().Draw(t, "uses a claim") {
				using(fmt.Sprint(i))(p)
			}
			o.cache(t, p)
			o.store(t, p)
			o.enqueuedByPod(nil, p)
			o.enqueuedByPod(p, p)
			o.enqueuedByPod(p, nil)
		}
		s, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := plantest.Restored(t, s)
		for _, c := range written(t, planClaims(epoch, s)) {
			if protection.Due(c) {
				t.Errorf("%s is not done", c.Name)
			}
		}
		if diff := cmp.Diff(before, plantest.Restored(t, s)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
	})
}
