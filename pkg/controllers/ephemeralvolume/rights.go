package ephemeralvolume

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; ST-27 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "pods"}, {Name: "persistentvolumeclaims"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"create"},
				For: "claims of ephemeral volumes"},
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"get"},
				For: "a live look at who has the name of a claim"},
			rbac.Rule{Resource: "pods/finalizers", Verbs: []string{"update"}, For: "blockOwnerDeletion of its claims",
				Implied: true},
		),
	}
}
