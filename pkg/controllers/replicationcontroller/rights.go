package replicationcontroller

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RC-31 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "replicationcontrollers"}, {Name: "pods"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "replicationcontrollers", Verbs: []string{"get"},
				For: "a live read before an adoption"},
			rbac.Rule{Resource: "replicationcontrollers/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Resource: "replicationcontrollers/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods", Implied: true},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "the number of pods, adoption and release"},
		),
	}
}
