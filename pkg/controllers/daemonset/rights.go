package daemonset

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; DS-90 is the most that its account may have. It has no right
// to get a pod or a node.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: "apps", Name: "daemonsets"}, {Group: "apps", Name: "controllerrevisions"}, {Name: "pods"},
			{Name: "nodes"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "apps", Resource: "daemonsets", Verbs: []string{"get"},
				For: "a live read before an adoption"},
			rbac.Rule{Group: "apps", Resource: "daemonsets/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "apps", Resource: "daemonsets/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods and revisions", Implied: true},
			rbac.Rule{Group: "apps", Resource: "controllerrevisions", Verbs: []string{"create", "patch", "delete"},
				For: "rollouts, rollbacks, adoption, history"},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "placement, rollouts, adoption, release"},
		),
	}
}
