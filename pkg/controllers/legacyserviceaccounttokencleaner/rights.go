package legacyserviceaccounttokencleaner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Rights are what the controller asks of the API server; LTC-12 is the most that its account may have. What it lists,
// it lists with the identity that fills the caches.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "secrets"}, {Name: "serviceaccounts"}, {Name: "pods"}},
		Own: []rbac.Rule{
			{Resource: "secrets", Verbs: []string{"patch", "delete"}, For: "tokens that nobody has used for long"},
		},
		In: map[string][]rbac.Rule{metav1.NamespaceSystem: {
			{Resource: "configmaps", Verbs: []string{"get"}, Names: []string{trackingName},
				For: "since when the API server tracks which tokens are used"},
		}},
	}
}
