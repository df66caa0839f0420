package nodelifecycle

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; NL-64 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "nodes"}, {Name: "pods"}, {Name: "leases", Group: "coordination.k8s.io"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"},
				For: "a live read before a node is declared Unknown"},
			rbac.Rule{Resource: "nodes/status", Verbs: []string{"patch"},
				For: "the conditions of nodes that give no sign of life"},
			rbac.Rule{Resource: "nodes", Verbs: []string{"patch"}, For: "taints and labels"},
			rbac.Rule{Resource: "pods/status", Verbs: []string{"patch"},
				For: "the condition Ready of pods on nodes that are Unknown"},
		),
	}
}
