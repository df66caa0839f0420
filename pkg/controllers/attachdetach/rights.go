package attachdetach

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; AD-57 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Name: "nodes"}, {Name: "persistentvolumeclaims"}, {Name: "persistentvolumes"},
			{Name: "volumeattachments", Group: "storage.k8s.io"}, {Name: "csidrivers", Group: "storage.k8s.io"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "storage.k8s.io", Resource: "volumeattachments", Verbs: []string{"create", "delete"},
				For: "attaching and detaching"},
			rbac.Rule{Resource: "nodes", Verbs: []string{"get"},
				For: "a live read of the volumes that a node uses before one is detached"},
			rbac.Rule{Resource: "nodes/status", Verbs: []string{"patch"},
				For: "the list of attached volumes, for which kubelets wait"},
		),
	}
}
