package bootstrapsigner

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; BOOT-27 is the most that its account may have.
func Rights() rbac.Rights {
	key := clusterInfo()
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "configmaps"}, {Name: "secrets"}},
		In: map[string][]rbac.Rule{key.Namespace: {
			{Resource: "configmaps", Verbs: []string{"update"}, Names: []string{key.Name},
				For: "signatures of what the ConfigMap says"},
		}},
	}
}
