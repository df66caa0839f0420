package resourceclaim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func encodeInto(t interface{ Fatal(...any) }, from, into any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// text says what the steps of a plan do to a claim, in order.
func text(p plan.Plan) string {
	var parts []string
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.Change:
			c := s.New.(*resourcev1.ResourceClaim)
			if s.Subresource == "" {
				parts = append(parts, fmt.Sprintf("finalizers %v", c.Finalizers))
				break
			}
			var names []string
			for _, r := range c.Status.ReservedFor {
				names = append(names, r.Name)
			}
			parts = append(parts, fmt.Sprintf("status reserved=%s allocated=%t", strings.Join(names, ","), c.Status.Allocation != nil))
		case plan.Delete:
			parts = append(parts, "delete")
		}
	}
	return strings.Join(parts, "; ")
}

// A row is a sentence: a claim, the pods in the cache, those of which the deletion was seen, and what becomes of the claim. What has to be
// read live stands behind a question mark.
func TestPlanRelease(t *testing.T) {
	a, b := newPod("a", shares("gpu"), on("n1")), newPod("b", shares("gpu"), on("n1"))
	done, failed := newPod("a", shares("gpu"), on("n1"), phase(corev1.PodSucceeded)), newPod("a", phase(corev1.PodFailed))
	const freed, unprotected = "status reserved= allocated=false; finalizers []", "finalizers []"
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		pods  []*corev1.Pod
		gone  types.UID
		want  string
	}{
		{"its pod runs", newClaim("gpu", allocated(a)), []*corev1.Pod{a}, "", ""},
		{"RC-130 its pod has succeeded", newClaim("gpu", allocated(a)), []*corev1.Pod{done}, "", freed},
		{"RC-130 its pod has failed", newClaim("gpu", allocated(a)), []*corev1.Pod{failed}, "", freed},
		{"RC-130 its pod was never placed and is being deleted", newClaim("gpu", allocated(a)), []*corev1.Pod{newPod("a", leaving)}, "",
			freed},
		{"RC-130 the deletion of its pod was seen", newClaim("gpu", allocated(a)), nil, "uid-a", freed},
		{"RC-130 the cache lacks its pod", newClaim("gpu", allocated(a)), nil, "", "?a"},
		{"RC-130 the cache shows another pod of its name", newClaim("gpu", allocated(a)), []*corev1.Pod{newPod("a", uid("other"))}, "",
			"?a"},
		{"RC-130 of two pods one has ended", newClaim("gpu", allocated(a, b)), []*corev1.Pod{done, b}, "",
			"status reserved=b allocated=true"},
		{"RC-130 other consumers stay", newClaim("gpu", allocated(a), reservedByGroup), []*corev1.Pod{done}, "",
			"status reserved=gang allocated=true"},
		{"RC-130 other consumers stay by themselves", newClaim("gpu", allocated(), reservedByGroup), nil, "uid-gang", ""},
		{"RC-131 without the finalizer devices are not given back", newClaim("gpu", allocated(a), bare), []*corev1.Pod{done}, "",
			"status reserved= allocated=true"},
		{"RC-132 the finalizer goes where nothing is allocated", newClaim("gpu", allocated(a), deallocated), []*corev1.Pod{done}, "",
			freed},
		{"RC-133 it is being deleted, and nobody uses it", newClaim("gpu", allocated(), doomed), nil, "", freed},
		{"RC-133 its devices were given back before", newClaim("gpu", allocated(), deallocated, doomed), nil, "", unprotected},
		{"RC-133 it is being deleted, and somebody uses it", newClaim("gpu", allocated(b), doomed), []*corev1.Pod{b}, "", ""},
		{"RC-133 it is unreserved, and not being deleted", newClaim("gpu", allocated()), nil, "", ""},
		{"RC-133 the finalizer of an allocation that is about to come stays", newClaim("gpu", allocated(), deallocated), nil, "", ""},
		{"RC-134 the claim of a pod that has ended", newClaim("gpu", of(a, "x"), allocated(a)), []*corev1.Pod{done}, "",
			freed + "; delete"},
		{"RC-134 one that was never allocated", newClaim("gpu", of(a, "x")), []*corev1.Pod{failed}, "", "delete"},
		{"RC-134 one that is being deleted already", newClaim("gpu", of(a, "x"), doomed), []*corev1.Pod{failed}, "", ""},
		{"RC-134 one that somebody else has reserved", newClaim("gpu", of(a, "x"), allocated(b)), []*corev1.Pod{done, b}, "", ""},
		{"RC-134 the claim of a pod that runs", newClaim("gpu", of(a, "x")), []*corev1.Pod{a}, "", ""},
		{"RC-134 the claim of a pod that the cache lacks", newClaim("gpu", of(a, "x")), nil, "", ""},
		{"RC-134 the cache shows another pod of the name", newClaim("gpu", of(a, "x")), []*corev1.Pod{newPod("a", uid("other"))}, "", "?a"},
		{"RC-134 the deletion of its pod was seen", newClaim("gpu", of(a, "x")), []*corev1.Pod{newPod("a", uid("other"))}, "uid-a",
			"delete"},
		{"RC-134 the claim of a pod that is gone is left to the garbage collector", newClaim("gpu", of(a, "x"), allocated(a)), nil, "uid-a",
			freed},
		{"a reservation of what cannot be a pod", newClaim("gpu", allocated(newPod("../x"))), nil, "", freed},
		{"RC-135 its pod is being deleted and runs", newClaim("gpu", of(a, "x"), allocated(a)),
			[]*corev1.Pod{newPod("a", on("n1"), leaving)}, "", ""},
		{"RC-127 pods that were placed without the scheduler", newClaim("gpu", allocated(a)), []*corev1.Pod{a, b}, "",
			"status reserved=a,b allocated=true"},
		{"RC-127 one takes the place of another", newClaim("gpu", allocated(a)), []*corev1.Pod{done, b}, "",
			"status reserved=b allocated=true"},
		{"RC-127 nothing is allocated", newClaim("gpu"), []*corev1.Pod{a, b}, "", ""},
		{"RC-127 it is being deleted", newClaim("gpu", allocated(a), doomed), []*corev1.Pod{a, b}, "", ""},
		{"RC-127 the claim of a template is for its pod only", newClaim("gpu", of(a, "x"), allocated(a)),
			[]*corev1.Pod{a, newPod("c", wants("x", "t"), records("x", "gpu"), on("n1"))}, "", ""},
		{"RC-127 the claim of a template", newClaim("gpu", of(newPod("c"), "x"), allocated()),
			[]*corev1.Pod{newPod("c", wants("x", "t"), records("x", "gpu"), on("n1"))}, "", "status reserved=c allocated=true"},
		{"RC-103 the claim of extended resources", newClaim("gpu", of(a, ""), allocated(a)),
			[]*corev1.Pod{newPod("a", extended("gpu"), phase(corev1.PodFailed))}, "", freed + "; delete"},
		{"MEND-31 a pod that has ended does not get its reservation back", newClaim("gpu", allocated(b)), []*corev1.Pod{done, b}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTestCaches(t, c.claim)
			for _, p := range c.pods {
				k.cache(t, p)
			}
			r := request[struct{}](c.claim.Name)
			if c.gone != "" {
				r.Changes = []reconcile.Change{{Before: newPod("a", uid(c.gone))}}
			}
			o, err := k.observeClaim(t.Context(), r)
			if err != nil || !o.Exists {
				t.Fatal(o, err)
			}
			before := plantest.Restored(t, o.Snapshot)
			p := planRelease(epoch, o.Snapshot)
			got := text(p)
			for _, ref := range p.Proof {
				got += "?" + ref.Name
			}
			if got != c.want || p.Why == "" {
				t.Errorf("%s: %s, want %s", p.Why, got, c.want)
			}
			if diff := cmp.Diff(before, plantest.Restored(t, o.Snapshot)); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
			if got != "" && c.gone == "" && len(k.claimsByClaim(nil, c.claim)) != 1 {
				t.Error("the claim is not enqueued")
			}
		})
	}
}

// A claim is reserved for as many pods as the API allows.
func TestRC127MostReservations(t *testing.T) {
	k := newTestCaches(t, newClaim("gpu", allocated()))
	for i := range 300 {
		k.cache(t, newPod(fmt.Sprintf("p%03d", i), shares("gpu"), on("n1")))
	}
	o, _ := k.observeClaim(t.Context(), request[struct{}]("gpu"))
	p := planRelease(epoch, o.Snapshot)
	made := p.Steps[0].(plan.Change).New.(*resourcev1.ResourceClaim)
	if n := len(made.Status.ReservedFor); n != 256 || !strings.Contains(p.Why, "44 pods wait") {
		t.Error(n, p.Why)
	}
	k.cache(t, made)
	o, _ = k.observeClaim(t.Context(), request[struct{}]("gpu"))
	if p := planRelease(epoch, o.Snapshot); !p.Empty() || p.Requeue > 0 {
		t.Errorf("%+v", p)
	}
}
