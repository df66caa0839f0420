package persistentvolumeexpander

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; ST-9 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "persistentvolumeclaims"}, {Name: "persistentvolumes"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "persistentvolumeclaims/status", Verbs: []string{"patch"},
				For: "the annotation that hands a claim to a resizer"},
		),
	}
}
