package validatingadmissionpolicystatus

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns what the status says of types (VAP-2).
const fieldManager = "validatingadmissionpolicy-status"

// reportWarnings writes what the compiler has said. That typeChecking is there says that the policy was checked, also
// if there is no warning (VAP-2).
func reportWarnings(_ time.Time, s snapshot, d decision, _ plan.Outcome) plan.Plan {
	p := s.Policy
	if !d.Checked || p.Status.TypeChecking != nil && p.Status.ObservedGeneration == p.Generation &&
		equality.Semantic.DeepEqual(p.Status.TypeChecking.ExpressionWarnings, d.Warnings) {
		return plan.Plan{Why: "the status is as it should be"}
	}
	why := "the status says what the compiler has said"
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{
		Old:          p,
		New:          withStatus(p, d.Warnings),
		Subresource:  plan.Status,
		Apply:        &plan.Apply{FieldManager: fieldManager, Force: true},
		CheckVersion: true,
		Why:          why,
	}}}
}

// withStatus returns a policy with nothing but its status. The list of warnings is always there, which the type of
// policies does not allow: an API server takes off what is not applied any more, and typeChecking together with the
// last that was in it.
func withStatus(p *admissionv1.ValidatingAdmissionPolicy, warnings []admissionv1.ExpressionWarning) plan.Object {
	list := make([]any, len(warnings))
	for i, w := range warnings {
		list[i] = map[string]any{"fieldRef": w.FieldRef, "warning": w.Warning}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"observedGeneration": p.Generation, "typeChecking": map[string]any{"expressionWarnings": list},
	}}}
	u.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"))
	u.SetName(p.Name)
	u.SetUID(p.UID)
	u.SetResourceVersion(p.ResourceVersion)
	return u
}
