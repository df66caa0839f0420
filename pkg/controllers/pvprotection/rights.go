package pvprotection

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SM-25 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "persistentvolumes"}},
		Own: []rbac.Rule{{Resource: "persistentvolumes", Verbs: []string{"update"},
			For: "finalizers of PersistentVolumes"}},
	}
}
