package ttl

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; TTL-13 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "nodes"}},
		Own: []rbac.Rule{{Resource: "nodes", Verbs: []string{"patch"},
			For: "the annotation that says how long kubelets may cache"}},
	}
}
