package validatingadmissionpolicystatus

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; VAP-7 is the most that its account may have. Anybody may read
// what an API server publishes about types.
func Rights() rbac.Rights {
	const group, policies = "admissionregistration.k8s.io", "validatingadmissionpolicies"
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: group, Name: policies},
			{Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"},
		},
		Own: []rbac.Rule{{
			Group: group, Resource: policies + "/status", Verbs: []string{"patch"},
			For: "what is wrong with the expressions of policies",
		}},
	}
}
