package serviceaccount

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SA-11 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "namespaces"}, {Name: "serviceaccounts"}},
		Own: []rbac.Rule{{Resource: "serviceaccounts", Verbs: []string{"create"},
			For: "the ServiceAccount default of each namespace"}},
	}
}
