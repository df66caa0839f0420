package validatingadmissionpolicystatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var someWarning = admissionv1.ExpressionWarning{FieldRef: "spec.validations[0].expression", Warning: "no"}

// What is written into the status, as it is sent.
func TestReport(t *testing.T) { // VAP-2
	const sent = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",` +
		`"metadata":{"name":"p","resourceVersion":"3","uid":"uid-p"},"status":`
	for name, row := range map[string]struct {
		policy   *policy
		checked  bool
		warnings []admissionv1.ExpressionWarning
		want     string
	}{
		"there is nothing wrong": {newPolicy(), true, nil, sent + `{"observedGeneration":1,"typeChecking":{"expressionWarnings":[]}}}`},
		"there is": {newPolicy(), true, []admissionv1.ExpressionWarning{someWarning}, sent + `{"observedGeneration":1,"typeChecking":` +
			`{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"no"}]}}}`},
		"it was mended":              {newPolicy(wasChecked(someWarning), hasChanged), true, nil, sent + `{"observedGeneration":2,"typeChecking":{"expressionWarnings":[]}}}`},
		"it was changed, no better":  {newPolicy(wasChecked(someWarning)), true, []admissionv1.ExpressionWarning{someWarning}, ""},
		"it was checked, and is due": {newPolicy(wasChecked()), true, nil, ""},
		"it was not checked":         {newPolicy(wasChecked(), hasChanged), false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := reportWarnings(epoch, snapshot{Policy: row.policy}, decision{row.checked, row.warnings}, plan.Outcome{})
			got := ""
			if !p.Empty() {
				c := p.Steps[0].(plan.Change)
				patch, err := client.MappingFor[*policy]().Applied(c.New, client.WriteOptions{CheckVersion: c.CheckVersion})
				if got = string(patch.Data); err != nil || c.Subresource != plan.Status || !c.Apply.Force ||
					c.Apply.FieldManager != "validatingadmissionpolicy-status" {
					t.Errorf("%v, %+v", err, c)
				}
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
