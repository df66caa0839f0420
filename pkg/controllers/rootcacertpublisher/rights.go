package rootcacertpublisher

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RCA-10 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "namespaces"}, {Name: "configmaps"}},
		Own: []rbac.Rule{
			{Resource: "configmaps", Verbs: []string{"create", "update"},
				For: "the ConfigMap kube-root-ca.crt of each namespace"},
		},
	}
}
