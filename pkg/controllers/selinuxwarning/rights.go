package selinuxwarning

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server (ST-66).
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Name: "persistentvolumeclaims"}, {Name: "persistentvolumes"},
			{Group: "storage.k8s.io", Name: "csidrivers"},
		},
		Own: []rbac.Rule{
			{Resource: "events", Verbs: []string{"create"}, For: "pods that cannot share a volume"},
			{Resource: "events", Verbs: []string{"patch"}, For: "such an event that is repeated", Implied: true},
		},
	}
}
