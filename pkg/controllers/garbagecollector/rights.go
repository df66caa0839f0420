package garbagecollector

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server (GC-58).
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "*", Name: "*"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "*", Resource: "*", Verbs: []string{"get", "patch", "delete"},
				For: "owners, owner references and finalizers, objects without an owner"}),
	}
}
