package validatingadmissionpolicystatus

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever a policy is, nothing panics, and nothing that was observed is changed.
func TestAnyPolicyAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &policy{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(p)
		if rapid.Bool().Draw(t, "about something") {
			p.Spec.MatchConstraints = newPolicy().Spec.MatchConstraints
		}
		p.Namespace, p.Name = "", "p"
		before := p.DeepCopy()
		s := look(t, p)
		d, _ := planCheck(epoch, s)
		reportWarnings(epoch, s, d, plan.Outcome{})
		if diff := cmp.Diff(before, p); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
	})
}

// A document that says something else than it should has no types, or those that it has are of some use.
func TestAnyDocument(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"paths": null, "components": null}`, `{"components": {"schemas": {"a": null}}}`,
		widgetsWith(``), widgetsWith(`"a": null`), widgetsWith(`"": {"type": "string"}`), widgetsWith(`"a.b/c": {"type": "what"}`),
		widgetsWith(`"a": {"type": "array"}, "b": {"allOf": []}, "c": {"allOf": [{}, {}]}, "d": {"$ref": "nowhere"}`),
		widgetsWith(`"a": {"$ref": "#/components/schemas/com.example.v1.Widget"}`),
		widgetsWith(`"a": {"type": "array", "items": {"type": "array", "items": {"type": "object", "additionalProperties": {}}}}`),
	} {
		var d document
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s := clienttest.NewServer()
		publish(s, map[string]string{"apis/example.com/v1": text})
		p := newPolicy(about("example.com/v1/widgets"), says("object.a == 1", "object.b.c.d.e == 1"))
		o, err := newCaches(t, p).observe(t.Context(), request{Key: plan.KeyOf(p), Reader: s})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if decided, why := planCheck(epoch, o.Snapshot); !decided.Checked {
			t.Errorf("%s: %s", text, why.Why)
		}
	}
}
