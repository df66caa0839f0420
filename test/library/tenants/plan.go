package tenants

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a namespace has observed.
type snapshot struct {
	Namespace *corev1.Namespace
	Tenant    *corev1.ConfigMap // nil if there is none
	TooMany   string            // how many tenants are gone, if that is out of the ordinary
}

// planNamespace deletes a namespace of which the tenant is gone.
func planNamespace(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Namespace.Annotations[annotation] == "" || s.Namespace.DeletionTimestamp != nil:
		return plan.Plan{Why: "there is nothing to do"}
	case s.Tenant != nil:
		return plan.Plan{Why: "its tenant exists"}
	case s.TooMany != "":
		return plan.Plan{
			Why:     "its tenant is gone, but it is held",
			Hold:    plan.Hold{What: "namespaces of tenants that are gone", Why: s.TooMany},
			Requeue: time.Minute,
		}
	}
	return plan.Plan{
		Why:   "its tenant is gone",
		Proof: []plan.Ref{tenantOf(s.Namespace)},
		Steps: []plan.Step{plan.Delete{Objects: []plan.Object{s.Namespace}, Unowned: true, Why: "its tenant is gone"}},
	}
}

// tenantOf names the ConfigMap of the tenant.
func tenantOf(n *corev1.Namespace) plan.Ref {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	return plan.Ref{Kind: kind, Namespace: "tenants", Name: n.Annotations[annotation]}
}
