package podgc

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RB-5 is the most that its account may have. It records no
// events of its own.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "pods"}, {Name: "nodes"}},
		Own: []rbac.Rule{
			{Resource: "pods", Verbs: []string{"delete"}, For: "garbage collection"},
			{Resource: "pods/status", Verbs: []string{"patch"}, For: "phase and condition before the deletion"},
			{Resource: "nodes", Verbs: []string{"get"}, For: "a live read of whether a node is gone"},
			{Resource: "nodes", Verbs: []string{"list"}, For: "compare the cache of nodes before orphans are deleted"},
		},
	}
}
