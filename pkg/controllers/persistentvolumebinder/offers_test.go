package persistentvolumebinder

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Of very many claims that wait, none is looked at for each volume that becomes free, but all once for all volumes.
func TestManyVolumesForManyClaims(t *testing.T) {
	k := emptyCaches(t)
	termtest.Begin(t, k.claimTerm)
	watch := k.claimTerm.Follow(reconcile.Watch{Enqueues: k.claimsByVolume})
	for i := range 2 * manyWaiting {
		k.show(claim(fmt.Sprint("c-", i), ""))
	}
	k.show(claim("large", "5Gi"))
	k.show(claim("other", "class=other"))
	for i := range 1000 {
		v := volume(fmt.Sprint("v-", i), "")
		k.show(v)
		if keys := watch.Enqueues(nil, v); len(keys) > 0 {
			t.Fatalf("%d claims for volume %d", len(keys), i)
		}
	}
	o := volume("o", "class=other")
	k.show(o)
	if keys := watch.Enqueues(nil, o); len(keys) != 1 || keys[0].Name != "other" {
		t.Errorf("of another class: %v", keys)
	}
	term, _ := k.claimTerm.Get()
	all, _ := term.Offers.expire(time.Now().Add(offersAfter))
	keys := slices.Collect(k.offered(all.due))
	unfit := func(key plan.Key) bool { return key.Name == "large" || key.Name == "other" }
	if len(keys) != 2*manyWaiting || slices.ContainsFunc(keys, unfit) {
		t.Errorf("%d claims are looked at", len(keys))
	}
	all, _ = all.expire(time.Now())
	if keys := slices.Collect(k.offered(all.due)); len(keys) > 0 {
		t.Errorf("%d claims are looked at again", len(keys))
	}
}

func TestManyClaimsGetTheirVolumes(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		const n = manyWaiting + 50
		for i := range n {
			c.put(claim(fmt.Sprint("c-", i), ""))
		}
		clienttest.Settle()
		for i := range n {
			c.put(volume(fmt.Sprint("v-", i), ""))
		}
		clienttest.Settle()
		for i := range n {
			if of := c.claim(fmt.Sprint("c-", i)); of.Status.Phase != corev1.ClaimBound {
				t.Fatalf("%s is %s", of.Name, of.Status.Phase)
			}
		}
	})
}
