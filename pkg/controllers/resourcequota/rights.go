package resourcequota

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RQ-48 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "resourcequotas"}, {Group: "*", Name: "*"}},
		Own: []rbac.Rule{{Resource: "resourcequotas/status", Verbs: []string{"update"},
			For: "what the objects of a namespace use"}},
	}
}
