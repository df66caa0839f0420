package validatingadmissionpolicystatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Fields of Deployments by what an expression may do with them.
var some = map[string]string{
	"object.spec.replicas": "int", "object.metadata.name": "string", "object.spec.paused": "bool", "variables.n": "int",
	"object.spec.surge": "any", "object.nothing": "none", "oldObject.spec.nothing": "none",
}

// draw is a policy with expressions of which it is known whether they are right.
func draw(t *rapid.T) (p *policy, wrong int) {
	p = newPolicy(let("n", "object.spec.replicas"))
	p.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
	if rapid.Bool().Draw(t, "params") {
		params("v1", "ConfigMap")(p)
	}
	if rapid.Bool().Draw(t, "checked") {
		p.Generation = 1
		rapid.SampledFrom([]edit{wasChecked(), wasChecked(someWarning)}).Draw(t, "status")(p)
		p.Generation = rapid.Int64Range(1, 2).Draw(t, "generation now")
	}
	fields := []string{"object.spec.replicas", "object.metadata.name", "object.spec.paused", "variables.n", "object.spec.surge",
		"object.nothing", "oldObject.spec.nothing"}
	for range rapid.IntRange(0, 3).Draw(t, "expressions") {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		value := rapid.SampledFrom([]string{"1", "'a'", "true"}).Draw(t, "value")
		says(field + " == " + value)(p)
		if is := map[string]string{"1": "int", "'a'": "string", "true": "bool"}[value]; some[field] != is && some[field] != "any" {
			wrong++
		}
	}
	return p, wrong
}

// Each expression that is wrong has a warning, and no other one has.
func TestOnlyWhatIsWrongHasWarnings(t *testing.T) { // VAP-3, VAP-5
	rapid.Check(t, func(t *rapid.T) {
		p, wrong := draw(t)
		if d, why := planCheck(epoch, look(t, p)); d.Checked && len(d.Warnings) != wrong {
			t.Errorf("%s: %+v", why.Why, d.Warnings)
		}
	})
}

// What was written is what would be written again, so that a policy at rest costs nothing, and one that was checked is not due.
func TestWhatIsWrittenIsDone(t *testing.T) { // VAP-1, VAP-2
	rapid.Check(t, func(t *rapid.T) {
		p, _ := draw(t)
		s := look(t, p)
		d, _ := planCheck(epoch, s)
		r := reportWarnings(epoch, s, d, plan.Outcome{})
		if r.Empty() {
			return
		}
		written := &policy{}
		content := r.Steps[0].(plan.Change).New.(*unstructured.Unstructured).Object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, written); err != nil {
			t.Fatal(err)
		}
		s.Policy = p.DeepCopy()
		s.Policy.Status = written.Status
		if due(s.Policy, s.Custom) || !reportWarnings(epoch, s, d, plan.Outcome{}).Empty() || s.Policy.Status.TypeChecking == nil {
			t.Errorf("%+v", s.Policy.Status)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := draw(t)
		s := look(t, p)
		again := plantest.Restored(t, s)
		d1, p1 := planCheck(epoch, s)
		d2, p2 := planCheck(epoch, again)
		plantest.Same(t, p1, p2)
		if diff := cmp.Diff(d1, d2); diff != "" {
			t.Error(diff)
		}
		plantest.Same(t, reportWarnings(epoch, s, d1, plan.Outcome{}), reportWarnings(epoch, again, d2, plan.Outcome{}))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		whole := &policy{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(whole)
		drawn, _ := draw(t)
		if rapid.Bool().Draw(t, "about something") {
			whole.Spec.MatchConstraints, whole.Spec.Validations = drawn.Spec.MatchConstraints, drawn.Spec.Validations
		}
		whole.Name, whole.Namespace, whole.ManagedFields = "p", "", nil
		projected, err := kept.Project(whole)
		if err != nil {
			t.Fatal(err)
		}
		a, b := look(t, whole), look(t, projected.(*policy))
		d1, p1 := planCheck(epoch, a)
		d2, p2 := planCheck(epoch, b)
		plantest.Same(t, p1, p2)
		if diff := cmp.Diff(d1, d2); diff != "" {
			t.Error(diff)
		}
	})
}
