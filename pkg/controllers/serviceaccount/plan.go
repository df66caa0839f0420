package serviceaccount

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// defaultName is that of the ServiceAccount which each namespace has (SA-1).
const defaultName = "default"

// snapshot is a namespace and its ServiceAccount, as one reconcile has observed them. Observe fills it, and
// planAccount reads it. The objects belong to shared caches.
type snapshot struct {
	Namespace *corev1.Namespace
	Account   *corev1.ServiceAccount // called default; nil if there is none
}

// planAccount creates the ServiceAccount that is missing.
func planAccount(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Namespace == nil:
		return plan.Plan{Why: "the namespace is gone"}
	case s.Namespace.Status.Phase != corev1.NamespaceActive:
		return plan.Plan{Why: fmt.Sprintf("the namespace is not active: its phase is %q", s.Namespace.Status.Phase)}
	case s.Account != nil:
		return plan.Plan{Why: "the ServiceAccount default exists"}
	}
	return plan.Plan{
		Why: "create the ServiceAccount default",
		Steps: []plan.Step{plan.Create{
			Object: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace.Name,
				Name: defaultName}},
			IfAbsent: true,
			Why:      "the namespace has no ServiceAccount default",
		}},
	}
}
