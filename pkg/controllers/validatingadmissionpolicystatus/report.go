package validatingadmissionpolicystatus

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns what the status says of types (VAP-2).
const fieldManager = "validatingadmissionpolicy-status"

// reportWarnings writes what the compiler has said. That typeChecking is there says that the policy was checked, also
// if there is no warning (VAP-2).
func reportWarnings(_ time.Time, s snapshot, d decision, _ plan.Outcome) plan.Plan {
	old := s.Policy
	wanted := admissionv1.ValidatingAdmissionPolicyStatus{
		ObservedGeneration: old.Generation,
		TypeChecking:       &admissionv1.TypeChecking{ExpressionWarnings: d.Warnings},
	}
	has := old.Status
	has.Conditions = nil // they are nobody's
	if !d.Checked || equality.Semantic.DeepEqual(has, wanted) {
		return plan.Plan{Why: "the status is as it should be"}
	}
	why := "the status says what the compiler has said"
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{
		Old: old,
		New: &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: old.Name, UID: old.UID, ResourceVersion: old.ResourceVersion},
			Status:     wanted,
		},
		Subresource:  plan.Status,
		Apply:        &plan.Apply{FieldManager: fieldManager, Force: true},
		CheckVersion: true,
		Why:          why,
	}}}
}
