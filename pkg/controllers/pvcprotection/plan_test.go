package pvcprotection

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const finalizer = "kubernetes.io/pvc-protection"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*corev1.PersistentVolumeClaim)

// newClaim is one that has just been created where no admission plugin adds the finalizer.
func newClaim(name string, edits ...edit) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: "5",
		Labels: map[string]string{"a": "b"}}}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func with(finalizers ...string) edit {
	return func(c *corev1.PersistentVolumeClaim) { c.Finalizers = finalizers }
}

func leaving(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }

func ownedBy(p *corev1.Pod) edit {
	return func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, client.KindFor[*corev1.Pod]())}
	}
}

type podEdit = func(*corev1.Pod)

// pod is one that runs on a node.
func pod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.Spec.NodeName = "node"
	p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// using gives a pod a volume that names a claim.
func using(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v" + claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// ephemeral gives a pod an ephemeral volume.
func ephemeral(name string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
		}})
	}
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

func terminating(grace int64) podEdit {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, ptr.To(grace)
	}
}

func ended(phase corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = phase } }

// A row is a sentence. want are the finalizers that are written; nil for no write.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		pod     string
		checked bool
		want    []string
		next    time.Duration
	}{
		{"SM-30 SM-35 a claim that lacks the finalizer gets it", newClaim("data"), "", false, []string{finalizer}, 0},
		{"SM-35 other finalizers stay", newClaim("data", with("example.com/a")), "", false, []string{"example.com/a", finalizer}, 0},
		{"SM-35 a claim that is being deleted and unused may go", newClaim("data", leaving, with("example.com/a", finalizer)), "", true,
			[]string{"example.com/a"}, 0},
		{"SM-37 it may not go before the pods were listed live", newClaim("data", leaving, with(finalizer)), "", false, nil, 0},
		{"SM-37 a pod in the cache keeps it", newClaim("data", leaving, with(finalizer)), "web", false, nil, 0},
		{"SM-37 a pod that only the server knows keeps it, and is looked at again", newClaim("data", leaving, with(finalizer)), "web", true,
			nil, lookAgain},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.claim.DeepCopy()
			p := planClaims(epoch, snapshot{Claims: []*claim{{Claim: c.claim, Pod: c.pod, Checked: c.checked}}})
			if p.Why == "" || p.Requeue != c.next {
				t.Errorf("%q, reconciles again after %v", p.Why, p.Requeue)
			}
			var got []string
			for _, after := range written(t, p) {
				got = after.Finalizers
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.claim); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// SM-37: a row is a sentence about a claim that is being deleted, and that no pod in the cache uses.
func TestAsksForLiveReads(t *testing.T) {
	pods := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, "Pods in shop with spec.nodeName!=,metadata.name="+name)
		}
		return all
	}
	many := strings.Split(strings.Repeat("x", mostUnknown+1), "")
	for _, c := range []struct {
		name string
		snapshot
		want []string
	}{
		{"first for all pods on nodes", snapshot{}, []string{"Pods in shop with spec.nodeName!="}},
		{"then for those that the cache lacks", snapshot{Listed: true, Unknown: []string{"a", "b"}}, pods("a", "b")},
		{"or for all of them, if it lacks many", snapshot{Listed: true, Unknown: many}, []string{"Pods in shop with spec.nodeName!="}},
		{"but not while the pods were listed a moment ago", snapshot{Pause: time.Second}, nil},
	} {
		c.Namespace, c.Claims = "shop", []*claim{{Claim: newClaim("data", leaving, with(finalizer))}}
		var got []string
		p := planClaims(epoch, c.snapshot)
		for _, ref := range p.Proof {
			if got = append(got, ref.String()); ref.Metadata == c.Listed || !ref.All {
				t.Errorf("%s: %+v", c.name, ref)
			}
		}
		if !slices.Equal(got, c.want) || len(p.Steps) > 0 {
			t.Errorf("%s: asks for %q, want %q", c.name, got, c.want)
		}
	}
}

// written returns the claims as a plan writes them, and checks that it changes nothing but finalizers.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) (all []*corev1.PersistentVolumeClaim) {
	steps := slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { _, event := s.(plan.RecordEvent); return event })
	if len(steps) == 0 {
		return nil
	}
	for _, sequence := range steps[0].(plan.Each).Sequences {
		step := sequence[0].(plan.Change)
		before, after := step.Old.(*corev1.PersistentVolumeClaim).DeepCopy(), step.New.(*corev1.PersistentVolumeClaim)
		before.Finalizers = after.Finalizers
		if diff := cmp.Diff(before, after); diff != "" || len(sequence) != 1 || len(steps) != 1 {
			t.Errorf("more is changed than finalizers: %s", diff)
		}
		all = append(all, after)
	}
	return all
}

// A reconcile changes a bounded number of claims, and goes on at once. The reason names a few of those that stay, and the pods (SM-44).
func TestManyClaims(t *testing.T) {
	var s snapshot
	for i := range 2*mostChanges + 1 {
		s.Claims = append(s.Claims, &claim{Claim: newClaim(fmt.Sprint("free-", i), leaving, with(finalizer)), Checked: true},
			&claim{Claim: newClaim(fmt.Sprint("used-", i), leaving, with(finalizer)), Pod: "web"})
	}
	p := planClaims(epoch, s)
	if n := len(written(t, p)); n != mostChanges || p.Requeue == 0 || p.Requeue > time.Second {
		t.Errorf("%d changes, and then after %v", n, p.Requeue)
	}
	if !strings.Contains(p.Why, "used-0 because the pod web uses it") || len(p.Why) > 500 {
		t.Error(p.Why)
	}
}

// Where the pods of a namespace were listed a moment ago, claims that lack the finalizer do not wait.
func TestPause(t *testing.T) {
	s := snapshot{Pause: time.Second, Claims: []*claim{{Claim: newClaim("new")}, {Claim: newClaim("old", leaving, with(finalizer))}}}
	p := planClaims(epoch, s)
	if all := written(t, p); len(all) != 1 || all[0].Name != "new" || p.Requeue != time.Second {
		t.Errorf("%+v", p)
	}
}

// SM-44: a claim that stays for a while gets one event, which names the pod. It is told of again only if it is another claim.
func TestEventsSayWhyAClaimStays(t *testing.T) {
	used := func(uid types.UID) *claim {
		c := newClaim("data", leaving, with(finalizer))
		c.UID = uid
		return &claim{Claim: c, Pod: "web"}
	}
	told := map[types.UID]bool{}
	for _, row := range []struct {
		after time.Duration // the deletion
		claim *claim
		want  int
		next  time.Duration
	}{
		{0, used("1"), 0, eventDelay},
		{eventDelay - time.Second, used("1"), 0, time.Second},
		{eventDelay, used("1"), 1, 0},
		{time.Hour, used("1"), 0, 0},
		{time.Hour, used("2"), 1, 0},
		{time.Hour, &claim{Claim: used("2").Claim, Checked: true}, 0, 0},
		{time.Hour, used("2"), 1, 0},
	} {
		now := row.claim.Claim.DeletionTimestamp.Add(row.after)
		s := snapshot{Claims: []*claim{row.claim}}
		s.scheduleEvents(now, told)
		var events []string
		p := planClaims(now, plantest.Restored(t, s))
		for _, step := range p.Steps {
			if e, ok := step.(plan.RecordEvent); ok {
				events = append(events, e.Event.Message)
			}
		}
		if len(events) != row.want || row.want > 0 && !strings.Contains(events[0], "The pod web does") || p.Requeue != row.next {
			t.Errorf("%v after the deletion of %s: %q, and again after %v", row.after, row.claim.Claim.UID, events, p.Requeue)
		}
	}
}

func TestUses(t *testing.T) { // SM-36
	data, scratch := newClaim("data"), newClaim("web-scratch", ownedBy(pod("web")))
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		{"SM-36 a pod that runs and names the claim", pod("web", using("data")), data, true},
		{"SM-36 one that names another claim as well", pod("web", using("other"), using("data")), data, true},
		{"SM-36 one that names another claim", pod("web", using("other")), data, false},
		{"SM-36 one without volumes", pod("web", func(p *corev1.Pod) { p.Spec.Volumes = nil }), data, false},
		{"SM-36 one of another namespace", pod("web", using("data"), func(p *corev1.Pod) { p.Namespace = "office" }), data, false},
		{"SM-36 one that is not scheduled", pod("web", using("data"), unscheduled), data, false},
		{"SM-36 one that has completed", pod("web", using("data"), ended(corev1.PodSucceeded)), data, true},
		{"SM-36 one that has failed", pod("web", using("data"), ended(corev1.PodFailed)), data, true},
		{"SM-36 one that is being deleted", pod("web", using("data"), terminating(30)), data, true},
		{"SM-36 one that has no time left to end", pod("web", using("data"), terminating(0)), data, true},
		{"SM-36 one whose ephemeral volume it is", pod("web", ephemeral("scratch")), scratch, true},
		{"SM-36 one with an ephemeral volume of the name, whose claim it is not", pod("web", ephemeral("scratch")), newClaim("web-scratch"),
			false},
		{"SM-36 one of the same name before", pod("web", ephemeral("scratch"), uid("other")), scratch, false},
		{"SM-36 one whose ephemeral volume has another name", pod("web", ephemeral("cache")), scratch, false},
		{"SM-36 one that is being deleted, and whose ephemeral volume it is", pod("web", ephemeral("scratch"), terminating(30)), scratch,
			true},
		{"SM-36 one that has no time left to end, and whose ephemeral volume it is", pod("web", ephemeral("scratch"), terminating(0)),
			scratch, false},
		{"SM-36 one that names the claim of its ephemeral volume", pod("web", ephemeral("scratch"), using("web-scratch"), terminating(0)),
			scratch, false},
		{"SM-36 one that controls the claim that it names", pod("web", using("web-scratch"), terminating(30)), scratch, true},
		{"SM-36 one that controls the claim that it names, and has no time left to end", pod("web", using("web-scratch"), terminating(0)),
			scratch, false},
		{"SM-36 one that does not say how much time it has",
			pod("web", ephemeral("scratch"), terminating(0), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = nil }), scratch, true},
	} {
		if got := uses(c.pod, c.claim); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func uid(as string) podEdit { return func(p *corev1.Pod) { p.UID = types.UID(as) } }

func TestEnqueuedByClaim(t *testing.T) { // SM-31
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"a new claim that lacks the finalizer", nil, newClaim("data"), 1},
		{"one that has it", nil, newClaim("data", with(finalizer)), 0},
		{"one that has lost it", newClaim("data", with(finalizer)), newClaim("data"), 1},
		{"one that is being deleted and has it", newClaim("data", with(finalizer)), newClaim("data", leaving, with(finalizer)), 1},
		{"one that is being deleted and lacks it", newClaim("data"), newClaim("data", leaving), 0},
		{"one that is gone", newClaim("data", leaving, with(finalizer)), nil, 1},
	} {
		if keys := enqueuedByClaim(c.before, c.after); !slices.Equal(keys, []plan.Key{{Name: "shop"}}[:c.want]) {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}
