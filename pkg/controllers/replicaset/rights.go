package replicaset

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RB-2 is the most that its account may have. It has no right to
// get a pod.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "apps", Name: "replicasets"}, {Name: "pods"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "apps", Resource: "replicasets", Verbs: []string{"get"},
				For: "a live read before an adoption"},
			rbac.Rule{Group: "apps", Resource: "replicasets/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "apps", Resource: "replicasets/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods", Implied: true},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "scaling, adoption, release"},
		),
	}
}
