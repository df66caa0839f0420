package pvcprotection

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// drawPod is a pod that may use some of three claims.
func drawPod(t *rapid.T, i int) *corev1.Pod {
	p := pod(fmt.Sprint("web-", i))
	for _, e := range rapid.SliceOfN(rapid.SampledFrom([]podEdit{
		using("a"), using("b"), ephemeral("e"), unscheduled, terminating(0), terminating(30), ended(corev1.PodFailed),
		func(p *corev1.Pod) { p.Namespace = "office" },
	}), 0, 4).Draw(t, "edits") {
		e(p)
	}
	return p
}

// drawClaims are three claims, one of them perhaps that of the ephemeral volume of the first pod.
func drawClaims(t *rapid.T) (claims []*corev1.PersistentVolumeClaim) {
	for _, name := range []string{"a", "b", "web-0-e"} {
		c := newClaim(name)
		for _, e := range rapid.SliceOfN(rapid.SampledFrom([]edit{leaving, with(finalizer), with("x"), ownedBy(pod("web-0"))}), 0,
			4).Draw(t, "edits") {
			e(c)
		}
		claims = append(claims, c)
	}
	return claims
}

// drawWorld has the cache and the server know different pods.
func drawWorld(t *rapid.T) (o *observer, live []*corev1.Pod) {
	o = newObserver(t)
	for _, c := range drawClaims(t) {
		o.cache(t, c)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		p := drawPod(t, i)
		knows := rapid.SampledFrom([]string{"both", "cache", "server", "cache before it was scheduled"}).Draw(t, "knows")
		if knows != "server" {
			before := p.DeepCopy()
			if knows == "cache before it was scheduled" {
				before.Spec.NodeName = ""
			}
			o.cache(t, before)
		}
		if knows != "cache" {
			o.store(t, p)
			live = append(live, p)
		}
	}
	return o, live
}

// Whatever the cache shows, no claim loses the finalizer that a pod on the server uses, all others lose it that no pod in the cache uses,
// and what was written leaves nothing to do.
func TestNoClaimGoesThatIsUsed(t *testing.T) { // SM-36, SM-37
	rapid.Check(t, func(t *rapid.T) {
		o, live := drawWorld(t)
		s, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		removed := written(t, planClaims(epoch, s))
		for _, c := range removed {
			if c.DeletionTimestamp != nil && slices.ContainsFunc(live, func(p *corev1.Pod) bool { return uses(p, c) }) {
				t.Errorf("%s goes although a pod uses it", c.Name)
			}
			if protection.Due(c) {
				t.Errorf("%s is not done", c.Name)
			}
		}
		for _, c := range s.Claims {
			kept := !slices.ContainsFunc(removed, func(r *corev1.PersistentVolumeClaim) bool { return r.Name == c.Claim.Name })
			if kept && c.Pod == "" {
				t.Errorf("%s stays, and nothing uses it", c.Claim.Name)
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, _ := drawWorld(t)
		s, err := o.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := planClaims(epoch, s)
		again := planClaims(epoch, plantest.Restored(t, s))
		if again.Why != p.Why || again.Requeue != p.Requeue || len(written(t, again)) != len(written(t, p)) {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}

// What is not cached changes nothing: neither who uses what, nor who is enqueued.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t, 0)
		if rapid.Bool().Draw(t, "anything") {
			volumes, node := p.Spec.Volumes, p.Spec.NodeName
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(p)
			p.Name, p.Namespace, p.UID = "web-0", "shop", "uid-web-0"
			p.Spec.Volumes, p.Spec.NodeName = append(p.Spec.Volumes, volumes...), node
		}
		projected := kept.ProjectPod(p)
		o := newObserver(t)
		for _, c := range drawClaims(t) {
			o.cache(t, c)
			if uses(p, c) != uses(projected, c) {
				t.Errorf("%s uses %s: %t, and from the cache %t", p.Name, c.Name, uses(p, c), uses(projected, c))
			}
		}
		if diff := cmp.Diff(o.enqueuedByPod(p, nil), o.enqueuedByPod(projected, nil)); diff != "" {
			t.Errorf("other keys are enqueued: %s", diff)
		}
	})
}
