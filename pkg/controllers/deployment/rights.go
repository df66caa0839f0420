package deployment

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RB-1 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "apps", Name: "deployments"}, {Group: "apps", Name: "replicasets"},
			{Name: "pods"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "apps", Resource: "deployments", Verbs: []string{"get"},
				For: "a live read before an adoption"},
			rbac.Rule{Group: "apps", Resource: "deployments", Verbs: []string{"update"}, For: "rollback by annotation"},
			rbac.Rule{Group: "apps", Resource: "deployments/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "apps", Resource: "deployments/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its ReplicaSets", Implied: true},
			rbac.Rule{Group: "apps", Resource: "replicasets", Verbs: []string{"get"},
				For: "a live read of one whose name is taken"},
			rbac.Rule{Group: "apps", Resource: "replicasets", Verbs: []string{"create", "patch", "delete"},
				For: "rollouts, scaling, adoption, history"},
		),
	}
}
