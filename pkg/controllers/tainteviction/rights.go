package tainteviction

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; TE-35 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "pods"}, {Name: "nodes"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "nodes", Verbs: []string{"get"},
				For: "a live read of the taints before pods are deleted"},
			rbac.Rule{Resource: "pods/status", Verbs: []string{"patch"}, For: "the condition before the deletion"},
			rbac.Rule{Resource: "pods/eviction", Verbs: []string{"create"},
				For: "the same, with --taint-eviction-respect-disruption-budgets"},
			rbac.Rule{Resource: "pods", Verbs: []string{"delete"}, For: "pods that do not tolerate a taint"},
		),
	}
}
