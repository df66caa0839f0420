package ephemeralvolume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const conflict = "Warning FailedBinding ephemeral volume a: PVC shop/web-a was not created for pod shop/web (pod is not owner)"

// A row is a sentence: a pod and the claims that exist, the claims that are created, and the events.
func TestPlan(t *testing.T) {
	web := newPod("web", ephemeral("a"), ephemeral("b"))
	doomed := newClaim("web-a", web)
	doomed.DeletionTimestamp = &metav1.Time{Time: epoch}
	lost := newClaim("web-a", web)
	lost.Status.Phase = corev1.ClaimLost
	for _, c := range []struct {
		name string
		seen snapshot
		want []string
		told []string
	}{
		{name: "a pod without ephemeral volumes", seen: seen(newPod("web"))},
		{name: "ST-21 each volume gets a claim, in the order of the spec", seen: seen(newPod("web", ephemeral("z"), ephemeral("a"))),
			want: []string{"web-z", "web-a"}},
		{name: "ST-23 a claim of the pod is left alone", seen: seen(web, newClaim("web-a", web)), want: []string{"web-b"}},
		{name: "ST-23 whatever its state", seen: seen(web, lost, newClaim("web-b", web))},
		{name: "ST-23 also one that is being deleted", seen: seen(web, doomed, newClaim("web-b", web))},
		{name: "ST-24 a claim of nobody is not adopted", seen: seen(web, newClaim("web-a", nil), newClaim("web-b", web)),
			told: []string{conflict}},
		{name: "ST-24 nor is one of another pod of that name",
			seen: seen(web, newClaim("web-a", newPod("web", uid("before"))), newClaim("web-b", web)), told: []string{conflict}},
		{name: "ST-86 nor one of a pod whose claim has that name by chance",
			seen: seen(web, newClaim("web-a", newPod("we")), newClaim("web-b", web)), told: []string{conflict}},
		{name: "ST-84 one volume that fails holds up no other", seen: seen(web, newClaim("web-a", nil)), want: []string{"web-b"},
			told: []string{conflict}},
		{name: "ST-20 a pod that is being deleted", seen: seen(newPod("web", ephemeral("a"), leaving))},
		{name: "ST-85 a pod that has failed", seen: seen(newPod("web", ephemeral("a"), phase(corev1.PodFailed)))},
		{name: "ST-85 a pod that has succeeded",
			seen: seen(newPod("web", ephemeral("a"), phase(corev1.PodSucceeded)), newClaim("web-a", nil))},
		{name: "ST-28 a pod on no node", seen: seen(newPod("web", ephemeral("a"))), want: []string{"web-a"}},
		{name: "a running pod whose claim was deleted by force", seen: seen(newPod("web", ephemeral("a"), phase(corev1.PodRunning))),
			want: []string{"web-a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := plantest.Restored(t, c.seen)
			_, p := planClaims(epoch, c.seen)
			if p.Why == "" || p.Requeue != 0 {
				t.Errorf("%+v", p)
			}
			if diff := cmp.Diff(c.want, namesOf(created(p))); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(c.told, told(p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, plantest.Restored(t, c.seen)); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

func TestST22CreatedClaim(t *testing.T) {
	web := newPod("web", ephemeral("a"))
	_, p := planClaims(epoch, seen(web))
	template := web.Spec.Volumes[2].Ephemeral.VolumeClaimTemplate
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-a", Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "uid-web", Controller: ptr.To(true),
				BlockOwnerDeletion: ptr.To(true)}},
		},
		Spec: template.Spec,
	}
	claims := created(p)
	if diff := cmp.Diff([]*corev1.PersistentVolumeClaim{want}, claims); diff != "" {
		t.Fatal(diff)
	}
	claims[0].Labels["type"] = "other"
	if template.Labels["type"] != "a" {
		t.Error("the claim shares its labels with the pod in the cache")
	}
}

// The event about a claim that could not be created.
func TestST25FailedCreation(t *testing.T) {
	_, p := planClaims(epoch, seen(newPod("web", ephemeral("a"))))
	got := p.Steps[0].(plan.Each).Sequences[0][0].(plan.Create).Events
	want := plan.Events{Failed: plan.Event{Type: "Warning", Reason: "FailedBinding",
		Message: "ephemeral volume a: create PVC web-a: {error}"}}
	if got != want {
		t.Errorf("%+v", got)
	}
}

// An event tells of each foreign claim once, and again of another one that has taken its name.
func TestConflictIsToldOnce(t *testing.T) {
	web := newPod("web", ephemeral("a"))
	foreign := newClaim("web-a", nil)
	s := seen(web, foreign)
	for _, c := range []struct {
		uid  types.UID
		want int
	}{{"1", 1}, {"1", 0}, {"2", 1}, {"2", 0}} {
		foreign.UID = c.uid
		d, p := planClaims(epoch, s)
		if len(told(p)) != c.want {
			t.Errorf("uid %s: %q", c.uid, told(p))
		}
		s.Reported = remember(epoch, s, d, plan.Outcome{}).Reported
	}
	d, _ := planClaims(epoch, seen(web))
	if m := remember(epoch, s, d, plan.Outcome{}); m != nil {
		t.Errorf("%+v is remembered of a conflict that is over", m)
	}
}

// The reason says who has the name.
func TestExplain(t *testing.T) {
	web := newPod("web", ephemeral("a"), ephemeral("b"), ephemeral("c"))
	for want, s := range map[string]snapshot{
		"the pod has all its claims":             seen(newPod("web")),
		"create the claims web-a, web-b, web-c":  seen(web),
		"the pod is being deleted":               seen(newPod("web", leaving)),
		"the pod has ended, and needs no claims": seen(newPod("web", phase(corev1.PodFailed))),
		"create the claims web-b; wait until these claims of others are gone: web-a, which belongs to no pod; web-c, which belongs to the " +
			"Pod we (uid uid-we)": seen(web, newClaim("web-a", nil), newClaim("web-c", newPod("we"))),
	} {
		if _, p := planClaims(epoch, s); p.Why != want {
			t.Errorf("%q, want %q", p.Why, want)
		}
	}
}
