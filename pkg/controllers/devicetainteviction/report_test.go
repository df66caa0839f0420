package devicetainteviction

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// withStatus has a rule say something about its generation or another one.
func withStatus(r *resourcev1.DeviceTaintRule, status metav1.ConditionStatus, reason, message string,
	generation int64) *resourcev1.DeviceTaintRule {
	r.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", Status: status, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: *timeAt(-60)}}
	return r
}

// condition is what a report applies; nil if nothing.
func condition(t *testing.T, r *resourcev1.DeviceTaintRule, p plan.Plan) *metav1.Condition {
	t.Helper()
	if p.Empty() {
		return nil
	}
	c := p.Steps[0].(plan.Change)
	applied := resourcev1.DeviceTaintRule{}
	text, err := json.Marshal(c.New)
	if err == nil {
		err = json.Unmarshal(text, &applied)
	}
	if err != nil || len(applied.Status.Conditions) != 1 || applied.Name != r.Name || applied.UID != r.UID || c.Subresource != "status" ||
		*c.Apply != (plan.Apply{FieldManager: "device-taint-eviction-controller", Force: true}) {
		t.Fatalf("%v: %s", err, text)
	}
	return &applied.Status.Conditions[0]
}

// A row is a rule of the generation 3 with what becomes of pods by it, and the condition that it gets.
func TestStatus(t *testing.T) { // DTE-7
	rule := func() *resourcev1.DeviceTaintRule { return newRule("r", everything(), bad("k", 0)) }
	effect := func(e resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
		return newRule("r", everything(), withEffect(e))
	}
	for _, c := range []struct {
		name    string
		rule    *resourcev1.DeviceTaintRule
		pending count
		evicted int
		status  metav1.ConditionStatus
		reason  string // empty if it stays
		message string
		since   int // seconds
	}{
		{"DTE-7 a pod is to be evicted", rule(), count{Pods: 1, Namespaces: 1}, 0, "True", "PodsPendingEviction",
			"1 pod needs to be evicted in 1 namespace.", 0},
		{"DTE-7 pods are to be evicted, one was", rule(), count{3, 2, 4}, 1, "True", "PodsPendingEviction",
			"3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.", 0},
		{"DTE-7 all were", rule(), count{}, 2, "False", "Completed", "2 pods evicted since starting the controller.", 0},
		{"DTE-7 there are none", rule(), count{}, 0, "False", "NotStarted", "", 0},
		{"DTE-7 no effect", effect("None"), count{3, 2, 4}, 0, "False", "NoEffect",
			"2 published devices selected. 4 allocated devices selected. 3 pods would be evicted in 2 different namespaces if the effect was " +
				"NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.", 0},
		{"DTE-7 another effect", effect("NoSchedule"), count{3, 2, 4}, 0, "False", "OtherEffect",
			"Eviction only happens for the NoExecute effect.", 0},
		{"DTE-7 it says so already", withStatus(rule(), "False", "NotStarted", "", 3), count{}, 0, "", "", "", 0},
		{"DTE-7 it said so of the spec before", withStatus(rule(), "False", "NotStarted", "", 2), count{}, 0, "False",
			"NotStarted", "", -60},
		{"DTE-7 the number changes", withStatus(rule(), "True", "PodsPendingEviction", "2 pods", 3), count{Pods: 1, Namespaces: 1}, 0, "True",
			"PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.", -60},
		{"DTE-7 what would be is counted once", withStatus(effect("None"), "False", "NoEffect", "2 pods", 3), count{3, 2, 4}, 0, "", "", "", 0},
		{"DTE-7 for each spec", withStatus(effect("None"), "False", "NoEffect", "2 pods", 2), count{3, 2, 4}, 0, "False",
			"NoEffect", "*", -60},
		{"a process that has begun a moment ago does not undo what the one before has said",
			withStatus(rule(), "False", "Completed", "2 pods", 3), count{}, 0, "", "", "", 0},
		{"but goes on counting", withStatus(rule(), "False", "Completed", "2 pods", 3), count{}, 1, "False", "Completed",
			"1 pod evicted since starting the controller.", -60},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ruleSnapshot{Rule: c.rule, Pending: c.pending, Evicted: c.evicted, Published: 2}
			got := condition(t, c.rule, reportRule(epoch, s, plan.Outcome{}))
			if c.reason == "" {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			want := &metav1.Condition{Type: "EvictionInProgress", Status: c.status, Reason: c.reason, Message: c.message,
				ObservedGeneration: 3, LastTransitionTime: *timeAt(c.since)}
			if c.message == "*" && got != nil {
				want.Message = got.Message
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if p := planRule(epoch, s); !p.Empty() {
				t.Errorf("%+v", p)
			}
		})
	}
}

// How many pods would be evicted is found in what this manager says, and in what others write.
func TestPreviewedPods(t *testing.T) { // DTE-7
	for _, pods := range []int{0, 1, 2, 12345} {
		message := ruleSnapshot{Pending: count{pods, 1, 2}, Published: 3}.preview()
		if n, ok := previewedPods(message); !ok || n != pods {
			t.Errorf("%q: %d, %t", message, n, ok)
		}
	}
	for _, message := range []string{"", "pods would be evicted", "some pods would be evicted", "3 pods were evicted", " would be evicted"} {
		if n, ok := previewedPods(message); ok {
			t.Errorf("%q: %d", message, n)
		}
	}
}

// Whoever changes the effect of a rule alone, after its status has told what would become of it, has meant it so.
func TestPreviewed(t *testing.T) {
	const told = "7 pods would be evicted"
	before := func() *resourcev1.DeviceTaintRule {
		return withStatus(newRule("r", inPool("p"), withEffect("None")), "False", "NoEffect", told, 3)
	}
	after := func(edits ...func(*resourcev1.DeviceTaintRule)) *resourcev1.DeviceTaintRule {
		r := newRule("r", inPool("p"), bad("k", 0))
		r.Generation = 4
		for _, edit := range edits {
			edit(r)
		}
		return r
	}
	for _, c := range []struct {
		name   string
		was    *resourcev1.DeviceTaintRule
		is     *resourcev1.DeviceTaintRule
		proven bool
	}{
		{"the effect is changed", before(), after(), true},
		{"and the selector", before(), after(func(r *resourcev1.DeviceTaintRule) { r.Spec.DeviceSelector = everything() }), false},
		{"its status was about the spec before", withStatus(before(), "False", "NoEffect", told, 2), after(), false},
		{"it has no status yet", newRule("r", inPool("p"), withEffect("None")), after(), false},
		{"it had the effect NoSchedule", withStatus(newRule("r", inPool("p"), withEffect("NoSchedule")), "False", "NoEffect", told, 3),
			after(), false},
		{"its status does not say of how many pods", withStatus(before(), "False", "NoEffect", "", 3), after(), false},
		{"it has no effect still", before(), after(func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint = withEffect("None") }), false},
		{"another one has its name", before(), after(func(r *resourcev1.DeviceTaintRule) { r.UID = "other" }), false},
		{"it is new", nil, after(), false},
	} {
		var was plan.Object
		if c.was != nil {
			was = c.was
		}
		got := term{}.next(was, c.is)
		if proven := got.Previewed[c.is.UID] == (preview{4, 7}); proven != c.proven {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	all := term{}.next(before(), after()).evicted([]types.UID{"uid-r", "uid-s"}).evicted([]types.UID{"uid-r"})
	gone := all.next(after(), nil)
	if all.Evicted["uid-r"] != 2 || all.Evicted["uid-s"] != 1 || len(all.Previewed) != 1 || len(gone.Previewed) != 0 ||
		len(gone.Evicted) != 1 {
		t.Errorf("%+v, and when the rule is gone %+v", all, gone)
	}
}
