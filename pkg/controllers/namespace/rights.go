package namespace

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; NS-39 to NS-41 are the most that its account may have. It
// records no events of its own (NS-42).
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "namespaces"}},
		Own: []rbac.Rule{
			{Resource: "namespaces", Verbs: []string{"get"}, For: "a live read before anything is deleted"},
			{Resource: "namespaces/status", Verbs: []string{"update"}, For: "conditions"},
			{Resource: "namespaces/finalize", Verbs: []string{"update"}, For: "the release of an empty namespace"},
			{Group: "*", Resource: "*", Verbs: []string{"list", "delete", "deletecollection"},
				For: "what is in a namespace"},
		},
	}
}
