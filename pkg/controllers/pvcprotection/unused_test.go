package pvcprotection

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func bound(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound }

// said gives a claim the condition Unused.
func said(status corev1.ConditionStatus) edit {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimUnused, Status: status, LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour)),
		})
	}
}

func resizing(c *corev1.PersistentVolumeClaim) {
	c.Status.Conditions = append(c.Status.Conditions,
		corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue})
}

// A row is a sentence: a claim, a pod that uses it, and the condition that is written.
func TestUnused(t *testing.T) { // SM-39
	for _, c := range []struct {
		name  string
		usage usage
		want  corev1.ConditionStatus
	}{
		{"SM-39 a bound claim that no pod uses", usage{Claim: newClaim("data", bound, with(finalizer))}, corev1.ConditionTrue},
		{"SM-39 one that a pod uses", usage{Claim: newClaim("data", bound), Pod: "web"}, corev1.ConditionFalse},
		{"SM-39 it has come into use", usage{Claim: newClaim("data", bound, resizing, said(corev1.ConditionTrue)), Pod: "web"},
			corev1.ConditionFalse},
		{"SM-39 it is used no more", usage{Claim: newClaim("data", bound, said(corev1.ConditionFalse), resizing)}, corev1.ConditionTrue},
		{"SM-39 it is still used", usage{Claim: newClaim("data", bound, said(corev1.ConditionFalse)), Pod: "web"}, ""},
		{"SM-39 it is still unused", usage{Claim: newClaim("data", bound, said(corev1.ConditionTrue))}, ""},
		{"SM-39 one that is not bound", usage{Claim: newClaim("data")}, ""},
		{"SM-39 one that is being deleted", usage{Claim: newClaim("data", bound, leaving, said(corev1.ConditionFalse))}, ""},
		{"SM-39 where the API server does not let it be written", usage{Claim: newClaim("data", bound), Refused: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.usage.Claim.DeepCopy()
			if p := planUnused(epoch, c.usage); !p.Empty() || p.Why == "" {
				t.Errorf("plans %v: %q", p.Steps, p.Why)
			}
			p := reportUnused(epoch, plantest.Restored(t, c.usage), plan.Outcome{})
			if p.Empty() != (c.want == "") {
				t.Fatalf("%+v", p)
			}
			if p.Empty() {
				return
			}
			change := p.Steps[0].(plan.Change)
			after := change.New.(*corev1.PersistentVolumeClaim)
			at := conditionUnused(after)
			got := after.Status.Conditions[at]
			if got.Status != c.want || got.Reason == "" || got.Message == "" || !got.LastTransitionTime.Equal(&metav1.Time{Time: epoch}) ||
				change.Subresource != plan.Status {
				t.Errorf("%+v", change)
			}
			if waits := p.When.Quiet > 0; waits != (c.want == corev1.ConditionTrue) {
				t.Errorf("waits for %v", p.When)
			}
			if (usage{Claim: after, Pod: c.usage.Pod}).differs() {
				t.Error("it is to be written again")
			}
			if others := len(before.Status.Conditions) - min(1, conditionUnused(before)+1); len(after.Status.Conditions) != others+1 {
				t.Errorf("other conditions: %+v", after.Status.Conditions)
			}
		})
	}
}

// Which claims a change enqueues depends on what the caches show, whichever of them was the last.
func TestUnusedIsEnqueued(t *testing.T) { // SM-32, SM-39
	used, free := newClaim("used", bound, said(corev1.ConditionFalse)), newClaim("free", bound, said(corev1.ConditionTrue))
	web := pod("web", using("used"), unscheduled)
	o := newObserver(t, used, free, newClaim("wrong", bound, said(corev1.ConditionFalse)), newClaim("none", bound),
		newClaim("web-scratch", bound, said(corev1.ConditionTrue)), web)
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          []string
	}{
		{"SM-39 a claim without the condition", nil, newClaim("none", bound), []string{"none"}},
		{"SM-39 one with a wrong one", nil, newClaim("wrong"), []string{"wrong"}},
		{"SM-39 one with the right one", nil, used, nil},
		{"SM-39 one that is gone", free, nil, []string{"free"}},
		{"SM-39 a pod on no node uses its claim", nil, web, nil},
		{"SM-39 pods of claims that say otherwise", nil, pod("a", using("wrong"), using("none"), using("lost")), []string{"wrong", "none"}},
		{"SM-39 a pod that has ended", pod("a", using("wrong")), pod("a", using("wrong"), ended(corev1.PodSucceeded)), []string{"wrong"}},
		{"SM-39 a pod that changes and runs on", pod("a", using("wrong")), pod("a", using("wrong"), terminating(30)), nil},
		{"SM-39 a pod that is gone", pod("a", using("wrong")), nil, []string{"wrong"}},
		{"SM-39 the claim of an ephemeral volume is another pod's", nil, pod("web", ephemeral("scratch")), nil},
	} {
		enqueues := o.unusedByPod
		for _, object := range []plan.Object{c.before, c.after} {
			if _, claim := object.(*corev1.PersistentVolumeClaim); claim {
				enqueues = o.unusedByClaim
			}
		}
		var got []string
		for _, key := range enqueues(c.before, c.after) {
			got = append(got, key.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s enqueues %v", c.name, got)
		}
	}
}

// What a pod in the cache is to a claim in use decides about its condition, and nothing that is not cached does.
func TestUsage(t *testing.T) { // SM-39
	rapid.Check(t, func(t *rapid.T) {
		o := newObserver(t)
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			p := drawPod(t, i)
			o.cache(t, p)
			pods = append(pods, p)
		}
		for _, c := range drawClaims(t) {
			used := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return names(p, c) })
			if got := o.usageOf(c).Pod; (got != "") != used {
				t.Errorf("%s is used by %q", c.Name, got)
			}
		}
	})
}

// statusOf returns what the condition of a claim on the server says.
func statusOf(t *testing.T, s *clienttest.Server, name string) corev1.ConditionStatus {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := s.Get(t.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: name},
		c); err != nil {
		t.Fatal(err)
	}
	if at := conditionUnused(c); at >= 0 {
		return c.Status.Conditions[at].Status
	}
	return ""
}

// A claim says that a pod uses it, and that no pod does. A pod that follows another one at once costs no write.
func TestLifeOfACondition(t *testing.T) { // SM-39
	run(t, func(s *clienttest.Server, put func(plan.Object)) {
		clienttest.Settle()
		if got := statusOf(t, s, "data"); got != corev1.ConditionFalse {
			t.Fatalf("used: %q", got)
		}
		writes := s.CountWrites("update")
		gone := func(name string) {
			if err := s.Delete(t.Context(), client.MappingFor[*corev1.Pod](), plan.Key{Namespace: "shop", Name: name},
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		gone("web")
		time.Sleep(100 * time.Millisecond)
		put(pod("web", using("data"), uid("new"), unscheduled))
		clienttest.Settle()
		if got := statusOf(t, s, "data"); got != corev1.ConditionFalse || s.CountWrites("update") != writes {
			t.Errorf("another pod uses it: %q, %v", got, s.Log())
		}
		gone("web")
		clienttest.Settle()
		if got := statusOf(t, s, "data"); got != corev1.ConditionTrue {
			t.Errorf("unused: %q", got)
		}
	}, newClaim("data", bound, with(finalizer)), pod("web", using("data")))
}

// Where the account lacks the right, each claim gets its finalizer, and no claim is tried twice.
func TestForbiddenConditionsAreGivenUp(t *testing.T) { // SM-35, SM-39
	var tries atomic.Int64
	run(t, func(s *clienttest.Server, put func(plan.Object)) {
		s.BeforeWrite(func(w clienttest.Write) error {
			if w.Options.Subresource != plan.Status {
				return nil
			}
			tries.Add(1)
			return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, w.Key.Name,
				errors.New(`User "x" cannot update resource "persistentvolumeclaims/status" in API group "" in the namespace "shop"`))
		})
		for _, name := range []string{"a", "b", "c"} {
			put(newClaim(name, bound))
			clienttest.Settle()
		}
		time.Sleep(time.Hour)
		if tries.Load() != 1 {
			t.Errorf("tried %d times", tries.Load())
		}
		for _, name := range []string{"a", "b", "c"} {
			if got := finalizers(t, s, name); !slices.Equal(got, []string{finalizer}) {
				t.Errorf("%s has the finalizers %v", name, got)
			}
		}
	})
}
