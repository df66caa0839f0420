package replicas

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// row is a sentence: a set that looks like this leads to these writes.
type row struct {
	name string
	s    view
	want []string // nil also for plans that are too long to spell out
	why  string   // a part of the reasons
}

func check(t *testing.T, rows []row) {
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := planPods(now, c.s)
			if got := lines(p.Steps); len(got) <= 10 {
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("plan (-want +got):\n%s", diff)
				}
			}
			if !strings.Contains(p.Why, c.why) {
				t.Errorf("why %q, want %q in it", p.Why, c.why)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	other := controlledBy("other")
	noSelector := func(set *appsv1.ReplicaSet) { set.Spec.Selector = nil }
	everything := func(set *appsv1.ReplicaSet) { set.Spec.Selector = &metav1.LabelSelector{} }
	unparsable := func(set *appsv1.ReplicaSet) {
		set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	}
	check(t, []row{
		{"RS-8 a selector that cannot be read stops everything", snapshotOf(web(2, unparsable), pods(1)), nil, "left alone"},
		{"RS-8 so does a missing one, and no pod is let go for it", snapshotOf(web(2, noSelector), pods(1)), nil, "left alone"},
		{"RS-22 an empty selector adopts nothing", snapshotOf(web(2, everything), pods(3, orphan)), nil, "left alone"},
		{"RS-11 pods of others are no candidates", snapshotOf(web(2), pods(2, other)), []string{"create 2"}, "create 2"},
		{"RS-11 nor are orphans of other namespaces",
			snapshotOf(web(0), pods(1, orphan, func(p *corev1.Pod) { p.Namespace = "bank" })), nil, "all 0"},
		{"RS-12 finished pods are replaced, not deleted",
			snapshotOf(web(2), list(pod("a", phase(corev1.PodFailed)), pod("b", phase(corev1.PodSucceeded)))), []string{"create 2"}, ""},
		{"RS-12 a terminating pod is replaced", snapshotOf(web(1), pods(1, terminatingPod)), []string{"create 1"}, ""},
		{"RS-15 nothing is created while the set is being deleted", snapshotOf(web(2, beingDeleted)), nil, "being deleted"},
		{"RS-19 nor is anything deleted", snapshotOf(web(1, beingDeleted), pods(3)), nil, "garbage collector"},
		{"RS-20 a pod of another controller stays there, though it matches", snapshotOf(web(0), pods(1, other)), nil, ""},
		{"RS-20 a pod of a set being deleted is still its own",
			snapshotOf(web(1, beingDeleted), pods(1, labeled("app=x"))), nil, ""},
		{"RS-21 a pod that no longer matches is released and replaced",
			snapshotOf(web(1), pods(1, labeled("app=debug"))), []string{"release p0", "create 1"}, ""},
		{"RS-58 quarantine: of two pods one is relabelled",
			snapshotOf(web(2), list(pod("a"), pod("b", labeled("app=debug")))), []string{"release b", "create 1"}, ""},
		{"RS-22 a matching orphan is adopted", snapshotOf(web(1), pods(1, orphan)), []string{"adopt p0"}, ""},
		{"RS-22 not by a set that is being deleted", snapshotOf(web(1, beingDeleted), pods(1, orphan)), nil, ""},
		{"RS-22 not when it is being deleted itself", snapshotOf(web(0), pods(1, orphan, terminatingPod)), nil, ""},
		{"RS-22 not when it does not match", snapshotOf(web(0), pods(1, orphan, labeled("app=x"))), nil, ""},
		{"RS-12 a finished orphan is not adopted", snapshotOf(web(0), pods(1, orphan, phase(corev1.PodFailed))), nil, ""},
		{"RS-23 an adopted pod counts at once",
			snapshotOf(web(2), list(pod("a", orphan))), []string{"adopt a", "create 1"}, "create 1 of 1"},
		{"RS-23 adopted pods that are too many are deleted in the next pass: none is written twice in one",
			snapshotOf(web(1), list(pod("a"), pod("b", orphan))), []string{"adopt b"}, "then delete"},
	})
}

func TestSizes(t *testing.T) {
	noLabels := func(set *appsv1.ReplicaSet) { set.Spec.Template.Labels = nil }
	misfit := func(set *appsv1.ReplicaSet) { set.Spec.Template.Labels = map[string]string{"app": "wbe"} }
	newTemplate := func(set *appsv1.ReplicaSet) { set.Spec.Template.Spec.Containers[0].Image = "web:2" }
	nilSize := func(set *appsv1.ReplicaSet) { set.Spec.Replicas = nil }
	check(t, []row{
		{"RS-25 creations are cut at 500", snapshotOf(web(700)), []string{"create 500"}, "create 500 of 700"},
		{"RS-25 so are deletions", snapshotOf(web(0), pods(1200)), nil, "delete 500 of 1200"},
		{"RS-27 a template without labels makes no pods", snapshotOf(web(2, noLabels)), nil, "unable to create pods, no labels"},
		{"RS-27 nor one that the selector does not match", snapshotOf(web(2, misfit)), nil, "does not match"},
		{"RS-27 such a set still deletes", snapshotOf(web(1, misfit), pods(2)), []string{"delete p0"}, ""},
		{"RS-30 all must go", snapshotOf(web(0), pods(2)), []string{"delete p0", "delete p1"}, "delete 2"},
		{"RS-31 the one that is not ready goes",
			snapshotOf(web(2), list(pod("a"), pod("b", unready), pod("c"))), []string{"delete b"}, "delete 1"},
		{"RS-40 a set of the right size is left alone", snapshotOf(web(2), pods(2)), nil, "all 2 pods are available"},
		{"RS-59 a new template changes no pod", snapshotOf(web(2, newTemplate), pods(2)), nil, ""},
		{"RS-61 terminating pods are replaced at once, beyond the size",
			snapshotOf(web(2), list(pod("a", terminatingPod), pod("b", terminatingPod), pod("c"))), []string{"create 1"}, ""},
		{"RS-62 no size is size 1", snapshotOf(web(5, nilSize)), []string{"create 1"}, ""},
		{"a pod seen twice, as an orphan and as the set's, is one pod",
			snapshotOf(web(1), list(pod("a", orphan), pod("a"))), nil, "all 1 pods"},
		{"why: waits for readiness", snapshotOf(web(2), list(pod("a"), pod("b", unready))), nil, "1 of them not ready"},
		{"why: waits for minReadySeconds",
			snapshotOf(web(1, minReady(7200)), pods(1)), nil, "1 of them not for long enough"},
	})
}

// A created pod carries what the template says, and nothing else (RS-22, RS-26, RS-27, RS-53, RS-54).
func TestRS27CreatedPod(t *testing.T) {
	set := web(3, func(set *appsv1.ReplicaSet) {
		set.Labels, set.Annotations = map[string]string{"of": "set"}, map[string]string{"of": "set"}
		set.Spec.Template.Annotations = map[string]string{"note": "x"}
		set.Spec.Template.Finalizers = []string{"example.com/f"}
		set.Spec.Template.Name, set.Spec.Template.Namespace = "ignored", "ignored"
	})
	got := planPods(now, snapshotOf(set)).Steps[0].(plan.Create)
	want := plan.Create{
		Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", GenerateName: "web-", Labels: map[string]string{"app": "web"},
				Annotations: map[string]string{"note": "x"}, Finalizers: []string{"example.com/f"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set",
					Controller: new(true), BlockOwnerDeletion: new(true)}},
			},
			Spec: set.Spec.Template.Spec,
		},
		Count:    3,
		Selector: set.Spec.Selector,
		Why:      "pods are missing",
		Events: plan.Events{
			Done:   plan.Event{Type: "Normal", Reason: "SuccessfulCreate", Message: "Created pod: {name}"},
			Failed: plan.Event{Type: "Warning", Reason: "FailedCreate", Message: "Error creating: {error}"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got.Object.(*corev1.Pod).Labels["app"] = "spoilt"
	if set.Spec.Template.Labels["app"] != "web" {
		t.Error("the pod shares its labels with the template")
	}
}

func TestRS27NamePrefix(t *testing.T) {
	for name, want := range map[string]string{
		"web":                    "web-",
		"web.v1":                 "web.v1-",
		strings.Repeat("a", 253): strings.Repeat("a", 253) + "-", // the server cuts it
		strings.Repeat("a", 254): strings.Repeat("a", 254),       // no name is that long
		"Web":                    "Web",
	} {
		if got := podPrefix(OfReplicaSet(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}})); got != want {
			t.Errorf("prefix of %q is %q", name, got)
		}
	}
}

// Adoption and release, to the letter (RS-14, RS-21, RS-22, RS-57).
func TestRS21RS22Claims(t *testing.T) {
	alien := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"}
	taken := pod("a", orphan, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{alien} })
	freed := pod("b", labeled("app=x"), func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, alien) })
	steps := planPods(now, snapshotOf(web(1), list(taken, freed))).Steps
	if len(steps) != 1 {
		t.Fatalf("steps: %v", lines(steps))
	}
	each := steps[0].(plan.Each)
	adopt, release := each.Sequences[0][0].(plan.Change), each.Sequences[1][0].(plan.Change)
	ours := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set",
		Controller: new(true), BlockOwnerDeletion: new(true)}
	if diff := cmp.Diff([]metav1.OwnerReference{alien, ours}, adopt.New.GetOwnerReferences()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{alien}, release.New.GetOwnerReferences()); diff != "" {
		t.Error(diff)
	}
	if !adopt.Adopt || release.Adopt {
		t.Error("the owner must be read live before an adoption, and only then (RS-14)")
	}
	none := plan.Events{}
	if adopt.Events != none || release.Events != none {
		t.Error("adoptions and releases must not emit events (RS-57)")
	}
}

// Deletion has its events and leaves grace and version to the server (RS-29, RS-55, RS-56).
func TestRS29Deletion(t *testing.T) {
	doomed := pod("a", unready)
	got := planPods(now, snapshotOf(web(1), list(pod("b"), doomed))).Steps
	want := []plan.Step{plan.Delete{Objects: []plan.Object{doomed}, Why: "pods are too many", Events: plan.Events{
		Done:   plan.Event{Type: "Normal", Reason: "SuccessfulDelete", Message: "Deleted pod: {name}"},
		Failed: plan.Event{Type: "Warning", Reason: "FailedDelete", Message: "Error deleting: {error}"},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The pods of other sets are counted only when pods have to be ranked (RS-30, RS-32).
func TestRS32RelatedIsOnlyCountedToRank(t *testing.T) {
	for _, c := range []struct {
		name string
		s    view
		want bool
	}{
		{"RS-40 right size", snapshotOf(web(2), pods(2)), false},
		{"RS-30 all must go", snapshotOf(web(0), pods(2)), false},
		{"RS-25 all must go, but not in this reconcile", snapshotOf(web(0), pods(501)), true},
		{"RS-31 some must go", snapshotOf(web(1), pods(2)), true},
		{"RS-8 the selector makes no sense", snapshotOf(web(1, func(set *appsv1.ReplicaSet) { set.Spec.Selector = nil }), pods(2)), false},
	} {
		if got := c.s.ranks(); got != c.want {
			t.Errorf("%s: pods are ranked: %v", c.name, got)
		}
	}
}

// The rest of a burst follows in the next pass: 1200 pods take three.
func TestRS25Bursts(t *testing.T) {
	w := &world{set: web(1200)}
	for pass, want := range []int{500, 1000, 1200, 1200} {
		w.pass(t)
		if len(w.pods) != want {
			t.Errorf("pass %d: %d pods, want %d", pass, len(w.pods), want)
		}
	}
	w.set = web(0)
	for pass, want := range []int{700, 200, 0, 0} {
		w.pass(t)
		w.bury()
		if len(w.pods) != want {
			t.Errorf("pass %d: %d pods, want %d", pass, len(w.pods), want)
		}
	}
}

// The facts about time are the same whatever the time zone or the precision of the clock.
func TestPlanIgnoresTimeZones(t *testing.T) {
	zone := time.FixedZone("far", 11*3600)
	s := snapshotOf(web(1), list(pod("a", ready(time.Minute)), pod("b", readySince(metav1.NewTime(now.Add(-time.Second).In(zone))))))
	if diff := cmp.Diff(lines(planPods(now, s).Steps), lines(planPods(now.In(zone), s).Steps)); diff != "" {
		t.Error(diff)
	}
}
