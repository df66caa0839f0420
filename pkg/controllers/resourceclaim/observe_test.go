package resourceclaim

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func namesOf(keys []plan.Key) (names []string) {
	for _, key := range keys {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

// A row is a change, the caches after it, and the pods that may lack a claim because of it.
func TestPodsThatAreEnqueued(t *testing.T) {
	web, gpu := newPod("web", wants("a", "gpu")), newTemplate("gpu")
	made := newClaim("x", of(web, "a"))
	satisfied := newPod("web", wants("a", "gpu"), records("a", "x"))
	foreign := newClaim("x", of(newPod("other"), "a"))
	for _, c := range []struct {
		name          string
		cached        []plan.Object
		before, after plan.Object
		want          []string
	}{
		{"RC-111 a new pod", nil, nil, web, []string{"web"}},
		{"RC-111 one that has its claim", []plan.Object{made}, nil, satisfied, nil},
		{"RC-111 one that records another claim now", nil, web, satisfied, []string{"web"}},
		{"RC-111 its recorded claim belongs to another", []plan.Object{foreign}, nil, satisfied, []string{"web"}},
		{"RC-110 a pod without entries", nil, nil, newPod("web"), nil},
		{"RC-121 one that names a claim", nil, nil, newPod("web", shares("x")), nil},
		{"RC-102 one that needs none", nil, nil, newPod("web", wants("a", "gpu"), records("a", "")), nil},
		{"RC-111 one that is being deleted", nil, nil, newPod("web", wants("a", "gpu"), leaving), nil},
		{"MEND-31 one that has ended", nil, nil, newPod("web", wants("a", "gpu"), phase(corev1.PodFailed)), nil},
		{"a change that is not about claims", nil, web, newPod("web", wants("a", "gpu"), on("n1")), nil},
		{"RC-175 another pod of the name", nil, web, newPod("web", wants("a", "gpu"), uid("other")), []string{"web"}},
		{"a pod that is gone is forgotten", nil, web, nil, []string{"web"}},
		{"RC-112 its claim has come", []plan.Object{web, made}, nil, made, []string{"web"}},
		{"RC-112 its claim is gone", []plan.Object{satisfied}, made, nil, []string{"web"}},
		{"RC-112 its claim has another owner", []plan.Object{satisfied, foreign}, made, foreign, []string{"web"}},
		{"RC-178 its claim has changed", []plan.Object{satisfied, made}, made, newClaim("x", of(web, "a"), allocated(web)), nil},
		{"RC-113 its template has come", []plan.Object{web, newPod("b", wants("x", "other")), gpu}, nil, gpu, []string{"web"}},
		{"RC-113 its template has changed", []plan.Object{web, gpu}, gpu, gpu, []string{"web"}},
		{"RC-113 a template of which it has a claim", []plan.Object{satisfied, made, gpu}, nil, gpu, nil},
		{"a template that is gone", []plan.Object{web}, gpu, nil, nil},
	} {
		k := newTestCaches(t, c.cached...)
		var keys []plan.Key
		switch {
		case kind[*corev1.Pod](c.before, c.after):
			keys = k.enqueuedByPod(c.before, c.after)
		case kind[*resourcev1.ResourceClaim](c.before, c.after):
			keys = k.enqueuedByClaim(c.before, c.after)
		default:
			keys = k.enqueuedByTemplate(c.before, c.after)
		}
		if diff := cmp.Diff(c.want, namesOf(keys)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func kind[T plan.Object](before, after plan.Object) bool {
	_, was := before.(T)
	_, is := after.(T)
	return was || is
}

// A row is a change of a pod, the claims in the cache, and those of which something may be to release or to reserve.
func TestClaimsThatAreEnqueued(t *testing.T) {
	runs := newPod("web", shares("gpu"), on("n1"), phase(corev1.PodRunning))
	done := newPod("web", shares("gpu"), on("n1"), phase(corev1.PodSucceeded))
	pending := newPod("web", shares("gpu"))
	made := newClaim("made", of(runs, "a"))
	for _, c := range []struct {
		name          string
		cached        []plan.Object
		before, after plan.Object
		want          []string
	}{
		{"RC-110 a pod has ended", []plan.Object{newClaim("gpu", allocated(runs))}, runs, done, []string{"gpu"}},
		{"RC-110 a pod is gone", []plan.Object{newClaim("gpu", allocated(runs))}, runs, nil, []string{"gpu"}},
		{"RC-110 another pod has its name", []plan.Object{newClaim("gpu", allocated(runs))}, runs,
			newPod("web", shares("gpu"), uid("other")), []string{"gpu"}},
		{"RC-110 a pod that had ended before the controller began", []plan.Object{newClaim("gpu", allocated(runs))}, nil, done,
			[]string{"gpu"}},
		{"RC-110 a claim that it has not reserved", []plan.Object{newClaim("gpu", allocated())}, runs, done, nil},
		{"RC-110 a claim that was made for it and not recorded", []plan.Object{made}, runs, done, []string{"made"}},
		{"RC-103 the claim of its extended resources", []plan.Object{newClaim("ext", allocated(runs))},
			newPod("web", extended("ext"), on("n1")), newPod("web", extended("ext"), on("n1"), phase(corev1.PodFailed)), []string{"ext"}},
		{"RC-110 a pod without claims", []plan.Object{newClaim("gpu", allocated(runs))}, newPod("web", on("n1")), nil, nil},
		{"RC-111 a pod has come to a node without the scheduler", []plan.Object{newClaim("gpu", allocated())}, pending, runs,
			[]string{"gpu"}},
		{"RC-111 with the scheduler", []plan.Object{newClaim("gpu", allocated(runs))}, pending, runs, nil},
		{"RC-111 nothing is allocated", []plan.Object{newClaim("gpu")}, pending, runs, nil},
		{"nothing of it has changed", []plan.Object{newClaim("gpu", allocated())}, runs, runs, nil},
	} {
		k := newTestCaches(t, c.cached...)
		if diff := cmp.Diff(c.want, namesOf(k.claimsByPod(c.before, c.after))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	k := newTestCaches(t, runs)
	if keys := k.claimsByClaim(nil, newClaim("gpu", allocated(runs))); keys != nil {
		t.Error("RC-178 a claim with nothing to release is enqueued")
	}
	before, after := newClaim("gpu", allocated(newPod("gone"))), newClaim("gpu", allocated(newPod("gone")))
	after.ResourceVersion, after.Labels = "2", map[string]string{"a": "b"}
	if keys := k.claimsByClaim(before, after); keys != nil {
		t.Error("RC-178 a claim is looked at although neither its users nor its devices have changed")
	}
	after.Status.ReservedFor = nil
	if after.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)); len(k.claimsByClaim(before, after)) != 1 {
		t.Error("a claim that is free now is not enqueued")
	}
	if before.ResourceVersion = after.ResourceVersion; len(k.claimsByClaim(after, after)) != 1 {
		t.Error("a resync is left out")
	}
	if keys := k.claimsByClaim(made, nil); len(keys) != 1 {
		t.Error("a claim that is gone is not forgotten")
	}
}

// What was read live is put into what was observed, and that is left alone.
func TestProve(t *testing.T) {
	gone, there, other := newPod("gone"), newPod("there"), newPod("other")
	k := newTestCaches(t, newClaim("gpu", allocated(gone, there, other)))
	seen, _ := k.observeClaim(t.Context(), request[struct{}]("gpu"))
	proof := reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{}}
	for _, p := range []*corev1.Pod{gone, there, other} {
		proof.Read[podRef(plan.KeyOf(p))] = reconcile.Reading{}
	}
	proof.Read[podRef(plan.KeyOf(there))] = found(there)
	proof.Read[podRef(plan.KeyOf(other))] = found(newPod("other", uid("another")))
	o := k.proveClaim(seen, proof)
	if p := planRelease(epoch, o.Snapshot); text(p) != "status reserved=there allocated=true" || p.Requeue != lookAgain {
		t.Error(text(p), p.Requeue) // the end of a pod that the cache lacks may cause no event
	}
	if len(seen.Snapshot.Unread) != 3 || len(seen.Snapshot.Over) != 0 {
		t.Error("what was observed is changed")
	}
	web := newPod("web", wants("a", "gpu"), records("a", "x"))
	k = newTestCaches(t, web, newTemplate("gpu"))
	for name, c := range map[string]struct {
		reading reconcile.Reading
		want    int
	}{
		"RC-121 it exists":              {found(newClaim("x", of(web, "a"))), 0},
		"RC-121 it belongs to others":   {found(newClaim("x")), 1},
		"RC-121 it is gone":             {reconcile.Reading{}, 1},
		"RC-121 it could not be looked": {reconcile.Reading{Err: errRead}, 0},
	} {
		seen, _ := k.observe(t.Context(), request[memory]("web"))
		o := k.prove(seen, reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{claimRef("shop", "x"): c.reading}})
		if _, p := planClaims(epoch, o.Snapshot); len(created(p)) != c.want {
			t.Errorf("%s: %s", name, p.Why)
		}
		if !seen.Snapshot.Entries[0].Unread {
			t.Error("what was observed is changed")
		}
	}
}

// found is the reading of the metadata of an object.
func found(o plan.Object) reconcile.Reading {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
		OwnerReferences: o.GetOwnerReferences()}}
	return reconcile.Reading{Objects: []plan.Object{m}}
}

// What a previous leader may have created is looked for: by the name that this process gives, and in one list that serves many pods.
func TestRC122Live(t *testing.T) {
	web := newPod("web", wants("a", "gpu"), wants("b", "gpu"))
	k := newTestCaches(t, web, newTemplate("gpu"), newClaim("made", of(web, "a")))
	o, _ := k.observe(t.Context(), request[memory]("web"))
	sets := live(o.Snapshot)
	if len(sets) != 2 || sets[0].Name != claimName(web, "b", 0) || sets[0].Shared || sets[1].Name != "" || !sets[1].Shared {
		t.Errorf("%+v", sets)
	}
	if sets := live(snapshot{Pod: web, Entries: o.Snapshot.Entries[:1]}); sets != nil {
		t.Errorf("nothing is missing: %+v", sets)
	}
}
