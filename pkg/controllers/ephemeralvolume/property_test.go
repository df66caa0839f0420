package ephemeralvolume

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// drawPod is a pod with up to three ephemeral volumes.
func drawPod(t *rapid.T) *corev1.Pod {
	p := newPod("web")
	for _, edit := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 4, rapid.ID[int]).Draw(t, "edits") {
		[]podEdit{ephemeral("a"), ephemeral("b"), ephemeral("c"), leaving, phase(corev1.PodRunning), phase(corev1.PodFailed)}[edit](p)
	}
	return p
}

// draw is a pod and some of its claims, which may be those of others.
func draw(t *rapid.T) snapshot {
	p := drawPod(t)
	s := snapshot{Pod: p, Claims: map[string]*corev1.PersistentVolumeClaim{}, Reported: map[string]types.UID{}}
	for _, name := range ephemeralClaims(p) {
		switch rapid.SampledFrom([]string{"none", "own", "foreign", "told", "orphan"}).Draw(t, name) {
		case "own":
			s.Claims[name] = newClaim(name, p)
		case "foreign":
			s.Claims[name] = newClaim(name, newPod("other"))
		case "told":
			s.Claims[name] = newClaim(name, nil)
			s.Reported[name] = s.Claims[name].UID
		case "orphan":
			s.Claims[name] = newClaim(name, nil)
		}
	}
	return s
}

// A pod that lives gets exactly the claims that it lacks, each its own; nobody else gets one, and no claim of others is touched.
func TestEachLivingPodGetsItsClaims(t *testing.T) { // ST-21, ST-22, ST-24
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := plantest.Restored(t, s)
		_, p := planClaims(epoch, s)
		var want []string
		if s.Pod.DeletionTimestamp == nil && s.Pod.Status.Phase != corev1.PodFailed {
			for _, name := range ephemeralClaims(s.Pod) {
				if s.Claims[name] == nil {
					want = append(want, name)
				}
			}
		}
		claims := created(p)
		if diff := cmp.Diff(want, namesOf(claims)); diff != "" {
			t.Errorf("%s: %s", p.Why, diff)
		}
		for _, c := range claims {
			if !metav1.IsControlledBy(c, s.Pod) || c.Namespace != s.Pod.Namespace {
				t.Errorf("%s does not belong to the pod", c.Name)
			}
			s.Claims[c.Name] = c
		}
		if _, again := planClaims(epoch, s); len(created(again)) > 0 {
			t.Errorf("it is not done: %s", again.Why)
		}
		for name := range before.Claims {
			delete(s.Claims, name)
		}
		if diff := cmp.Diff(len(want), len(s.Claims)); diff != "" {
			t.Error("claims of others were touched: ", diff)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		_, p := planClaims(epoch, s)
		_, again := planClaims(epoch, plantest.Restored(t, s))
		if again.Why != p.Why || !slices.Equal(told(again), told(p)) || !cmp.Equal(created(again), created(p), cmpopts.EquateEmpty()) {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if rapid.Bool().Draw(t, "anything") {
			volumes := s.Pod.Spec.Volumes
			s.Pod = anyPod(rapid.Int64().Draw(t, "seed"))
			s.Pod.Spec.Volumes = append(s.Pod.Spec.Volumes, volumes...)
		}
		cached := snapshot{Pod: kept.ProjectPod(s.Pod), Claims: map[string]*corev1.PersistentVolumeClaim{}, Reported: s.Reported}
		for name, c := range s.Claims {
			projected, err := kept.Project(c)
			if err != nil {
				t.Fatal(err)
			}
			cached.Claims[name] = projected.(*corev1.PersistentVolumeClaim)
		}
		_, a := planClaims(epoch, s)
		_, b := planClaims(epoch, cached)
		if a.Why != b.Why || !cmp.Equal(created(a), created(b), cmpopts.EquateEmpty()) || !slices.Equal(told(a), told(b)) {
			t.Errorf("%s, and from the cache: %s\n%s", a.Why, b.Why, cmp.Diff(created(a), created(b)))
		}
		if diff := cmp.Diff(enqueuedByPod(nil, s.Pod), enqueuedByPod(nil, plan.Object(cached.Pod))); diff != "" {
			t.Errorf("other keys are enqueued: %s", diff)
		}
	})
}

// anyPod is a pod with whatever the types allow, but for its name, its volumes and its owner.
func anyPod(seed int64) *corev1.Pod {
	p := &corev1.Pod{}
	plantest.Anything(seed)(p)
	p.Namespace, p.Name, p.UID, p.ManagedFields = "shop", "web", "uid-web", nil
	for i := range p.Spec.Volumes {
		p.Spec.Volumes[i].Name = fmt.Sprint("v", i)
	}
	return p
}
