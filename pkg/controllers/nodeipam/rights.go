package nodeipam

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; IPAM-57 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "nodes"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "nodes", Verbs: []string{"patch"}, For: "the ranges of addresses of pods"},
		),
	}
}
