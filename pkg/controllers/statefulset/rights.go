package statefulset

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; STS-83 is the most that its account may have. It has no
// right to patch PersistentVolumeClaims.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: "apps", Name: "statefulsets"}, {Group: "apps", Name: "controllerrevisions"}, {Name: "pods"},
			{Name: "persistentvolumeclaims"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "apps", Resource: "statefulsets", Verbs: []string{"get"},
				For: "a live read before an adoption"},
			rbac.Rule{Group: "apps", Resource: "statefulsets/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "apps", Resource: "statefulsets/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods, claims and revisions", Implied: true},
			rbac.Rule{Group: "apps", Resource: "controllerrevisions", Verbs: []string{"create", "patch", "delete"},
				For: "revisions, their adoption and history"},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "scaling, updates, adoption, release"},
			rbac.Rule{Resource: "pods/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of the claims of pods that are scaled away", Implied: true},
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"create", "update"},
				For: "claims of the pods, and who they are deleted with"},
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"delete"},
				For: "owners of claims: who sets an owner must be allowed to delete the object", Implied: true},
		),
	}
}
