package validatingadmissionpolicystatus

import (
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// settles is how long after a change of a CustomResourceDefinition API servers have published the new types for sure.
// Policies that are checked before are checked once more.
const settles = 10 * time.Second

// snapshot is a policy, and of one that is to be checked also the types that it is about. The policy belongs to a
// shared cache.
type snapshot struct {
	Policy *admissionv1.ValidatingAdmissionPolicy
	// Custom says that it names types which are not built into Kubernetes, so they may change.
	Custom bool
	// Types are those of the resources that it is about, by group, version and kind. Params is that of its parameters;
	// nil if it has none, or nobody knows.
	Types  []objectType
	Params *objectType
	// Unknown names what it is about and the API server has published nothing about.
	Unknown []string
	// Changed says that a definition in one of their groups has changed a moment ago.
	Changed bool
}

// decision is what the compiler says.
type decision struct {
	Checked  bool
	Warnings []admissionv1.ExpressionWarning
}

// due reports whether a policy is to be checked: when its spec has changed since it was last (VAP-1), and always if it
// is about types that may have changed since (VAP-20).
func due(p *admissionv1.ValidatingAdmissionPolicy, custom bool) bool {
	return custom || p.Generation > p.Status.ObservedGeneration || p.Status.TypeChecking == nil
}

// planCheck checks the expressions of a policy. It writes nothing: the report does.
func planCheck(_ time.Time, s snapshot) (d decision, p plan.Plan) {
	if !due(s.Policy, s.Custom) {
		return d, plan.Plan{Why: "the policy has not changed since it was checked"}
	}
	most, why := affordable(s.Policy, len(s.Types))
	warnings, unusable := check(s.Policy, s.Types[:most], s.Params)
	p.Why = fmt.Sprintf("the policy was checked for %d types: %d of its expressions have warnings", most, len(warnings))
	switch left := len(s.Types) - most; {
	case why != "":
		p.Why = "the policy counts as checked, but was not checked: " + why
	case left > 0:
		p.Why += fmt.Sprintf("; its expressions are too long to be checked for %d others", left)
	}
	if len(warnings) == mostWarnings {
		p.Why += "; no more are told"
	}
	if len(unusable) > 0 {
		p.Why += "; the compiler cannot use the types of " + strings.Join(unusable, ", ")
	}
	if len(s.Unknown) > 0 {
		p.Why += "; the API server has published no type for " + strings.Join(s.Unknown, ", ")
	}
	if s.Changed {
		p.Why += "; it is checked again soon, because a definition has changed"
		p.Requeue = settles + time.Second
	}
	return decision{Checked: true, Warnings: warnings}, p
}
