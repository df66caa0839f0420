package resourceclaim

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var errRead = errors.New("not answered")

// drawPod is a pod with up to two entries of templates, some of which are recorded, and one that names a claim.
func drawPod(t *rapid.T, name string) *corev1.Pod {
	p := newPod(name)
	for _, entry := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, name+entry) {
			wants(entry, rapid.SampledFrom([]string{"gpu", "tpu"}).Draw(t, "template"))(p)
			if claim := rapid.SampledFrom([]string{"", "x", "y", "none"}).Draw(t, "record"); claim == "none" {
				records(entry, "")(p)
			} else if claim != "" {
				records(entry, claim)(p)
			}
		}
	}
	for i, edit := range []podEdit{leaving, phase(corev1.PodRunning), phase(corev1.PodFailed), on("n1"), shares("x"), extended("y"),
		grouped} {
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprint(name, i)) == 0 {
			edit(p)
		}
	}
	return p
}

// draw is a world of two pods, which may be replaced, some claims and some templates.
func draw(t *rapid.T) (pods []*corev1.Pod, claims []*resourcev1.ResourceClaim, templates []*resourcev1.ResourceClaimTemplate) {
	for _, name := range []string{"web", "db"} {
		pods = append(pods, drawPod(t, name))
	}
	some := func(what string) []*corev1.Pod { return rapid.SliceOfN(rapid.SampledFrom(pods), 0, 2).Draw(t, what) }
	for _, name := range []string{"x", "y", claimName(pods[0], "a", 0), claimName(pods[0], "b", 0)} {
		if !rapid.Bool().Draw(t, name) {
			continue
		}
		c := newClaim(name, allocated(slices.CompactFunc(some("users"), func(a, b *corev1.Pod) bool { return a.UID == b.UID })...))
		for i, edit := range []claimEdit{doomed, deallocated, bare, reservedByGroup, of(pods[0], "a"), of(pods[1], "b"),
			of(newPod("web", uid("before")), "a")} {
			if rapid.IntRange(0, 2).Draw(t, fmt.Sprint(name, i)) == 0 {
				edit(c)
			}
		}
		claims = append(claims, c)
	}
	for _, name := range []string{"gpu", "tpu"} {
		if rapid.Bool().Draw(t, name) {
			templates = append(templates, newTemplate(name))
		}
	}
	if rapid.Bool().Draw(t, "replaced") {
		other := drawPod(t, "db")
		other.UID = "uid-other"
		pods[1] = other
	}
	return pods, claims, templates
}

func drawCaches(t *rapid.T) *caches {
	k := newTestCaches(t)
	pods, claims, templates := draw(t)
	for _, p := range pods {
		k.cache(t, p)
	}
	for _, c := range claims {
		k.cache(t, c)
	}
	for _, o := range templates {
		k.cache(t, o)
	}
	return k
}

// A pod that runs gets one claim of each template, and after that nothing is to be done. No claim is made twice, or for another pod.
func TestEachPodGetsItsClaims(t *testing.T) { // RC-121, RC-122
	rapid.Check(t, func(t *rapid.T) {
		k := drawCaches(t)
		o, _ := k.observe(t.Context(), request[memory]("web"))
		for i := range o.Snapshot.Entries {
			o.Snapshot.Entries[i].Unread = false // the proof shows that it is gone
		}
		pod := o.Snapshot.Pod
		before := plantest.Restored(t, o.Snapshot)
		d, p := planClaims(epoch, o.Snapshot)
		if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
			t.Fatalf("the plan changes what was observed: %s", diff)
		}
		claims := created(p)
		if (pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Spec.SchedulingGroup != nil) && len(p.Steps) > 0 {
			t.Fatal(p.Why)
		}
		for _, c := range claims {
			if !owned(c, pod.UID) || k.claims.Get("shop", c.Name) != nil || len(validNames(c.Name)) > 0 {
				t.Errorf("%s is created", c.Name)
			}
			k.cache(t, c)
		}
		status := map[string]string{}
		if rep := reportNames(epoch, o.Snapshot, d, done(claims...)); !rep.Empty() {
			applied := corev1.Pod{}
			encodeInto(t, rep.Steps[0].(plan.Change).New, &applied)
			pod = pod.DeepCopy()
			none := slices.DeleteFunc(pod.Status.ResourceClaimStatuses,
				func(s corev1.PodResourceClaimStatus) bool { return s.ResourceClaimName != nil })
			pod.Status.ResourceClaimStatuses = append(none, applied.Status.ResourceClaimStatuses...)
			k.cache(t, pod)
		}
		for _, s := range pod.Status.ResourceClaimStatuses {
			if _, twice := status[s.Name]; twice {
				t.Errorf("two records of %s", s.Name)
			}
			status[s.Name] = ""
		}
		o, _ = k.observe(t.Context(), request[memory]("web"))
		d, p = planClaims(epoch, o.Snapshot)
		if len(created(p)) > 0 || !reportNames(epoch, o.Snapshot, d, plan.Outcome{}).Empty() {
			t.Errorf("it is not done: %s", p.Why)
		}
	})
}

// Reservations go that pods have left, and no others; devices are given back when nobody is left; what is written leaves nothing to do.
func TestReservationsAreThoseOfPodsThatMayRun(t *testing.T) { // RC-130 to RC-135
	rapid.Check(t, func(t *rapid.T) {
		k := drawCaches(t)
		for c := range k.claims.All() {
			o, _ := k.observeClaim(t.Context(), request[struct{}](c.Name))
			gone := rapid.Bool().Draw(t, "gone")
			for uid := range o.Snapshot.Unread {
				o.Snapshot.Over[uid] = gone
			}
			clear(o.Snapshot.Unread)
			mayRun := map[types.UID]bool{}
			for p := range k.pods.All() {
				mayRun[p.UID] = !ended(p)
			}
			after := released(t, k, c, o.Snapshot)
			for _, r := range c.Status.ReservedFor {
				known, cached := mayRun[r.UID]
				stays := !isPod(r) || known || !cached && !gone
				if got := slices.Contains(after.Status.ReservedFor, r); got != stays {
					t.Errorf("the reservation of %s stays: %t, want %t", r.Name, got, stays)
				}
			}
			if used := len(after.Status.ReservedFor) > 0; used && (after.Status.Allocation == nil) != (c.Status.Allocation == nil) ||
				!used && after.DeletionTimestamp != nil && protection.Due(after) {
				t.Errorf("%+v", after)
			}
		}
	})
}

// released returns a claim as the plan for it leaves it, and looks whether anything is left to do.
func released(t *rapid.T, k *caches, c *resourcev1.ResourceClaim, s claimed) *resourcev1.ResourceClaim {
	p := planRelease(epoch, s)
	after, deleted := c, false
	for _, step := range p.Steps {
		switch step := step.(type) {
		case plan.Change:
			if !step.CheckVersion {
				t.Error("the version is no precondition")
			}
			after = step.New.(*resourcev1.ResourceClaim)
		case plan.Delete:
			if owner := podOf(c); !step.CheckVersion || owner == nil || !s.Over[owner.UID] || len(after.Status.ReservedFor) > 0 {
				t.Errorf("deleted: %+v", c)
			}
			deleted = true
		}
	}
	s.Claim, s.Waiting = after, k.waiting(after)
	if again := planRelease(epoch, s); !deleted && !again.Empty() {
		t.Errorf("%s, and after that: %s", p.Why, again.Why)
	}
	return after
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawCaches(t)
		o, _ := k.observe(t.Context(), request[memory]("web"))
		_, p := planClaims(epoch, o.Snapshot)
		_, again := planClaims(epoch, plantest.Restored(t, o.Snapshot))
		plantest.Same(t, p, again)
		for c := range k.claims.All() {
			o, _ := k.observeClaim(t.Context(), request[struct{}](c.Name))
			plantest.Same(t, planRelease(epoch, o.Snapshot), planRelease(epoch, plantest.Restored(t, o.Snapshot)))
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		pods, claims, templates := draw(t)
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		whole, cached := newTestCaches(t), newTestCaches(t)
		for _, p := range pods {
			fill(&p.Spec.Containers)
			fill(&p.Status.Conditions)
			whole.cache(t, p)
			cached.cache(t, kept.ProjectPod(p))
		}
		for _, c := range claims {
			fill(&c.Spec.Devices.Constraints)
			fill(&c.Status.Devices)
			whole.cache(t, c)
			cached.cache(t, project(t, kept.Project, c))
		}
		for _, o := range templates {
			whole.cache(t, o)
			cached.cache(t, project(t, kept.Project, o))
		}
		a, _ := whole.observe(t.Context(), request[memory]("web"))
		b, _ := cached.observe(t.Context(), request[memory]("web"))
		_, p := planClaims(epoch, a.Snapshot)
		_, q := planClaims(epoch, b.Snapshot)
		plantest.Same(t, p, q)
		for _, c := range claims {
			a, _ := whole.observeClaim(t.Context(), request[struct{}](c.Name))
			b, _ := cached.observeClaim(t.Context(), request[struct{}](c.Name))
			p, q := planRelease(epoch, a.Snapshot), planRelease(epoch, b.Snapshot)
			if p.Why != q.Why || text(p) != text(q) {
				t.Errorf("%s: %s, and from the cache %s: %s", p.Why, text(p), q.Why, text(q))
			}
		}
		for _, p := range pods {
			if !slices.Equal(whole.claimsByPod(nil, p), cached.claimsByPod(nil, kept.ProjectPod(p))) ||
				!slices.Equal(whole.enqueuedByPod(nil, p), cached.enqueuedByPod(nil, kept.ProjectPod(p))) {
				t.Errorf("%s enqueues other keys", p.Name)
			}
		}
	})
}
