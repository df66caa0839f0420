package storageversionmigrator

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SVM-8 is the most that its account may have. To patch
// everything includes the statuses of migrations and of CustomResourceDefinitions.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "storagemigration.k8s.io", Name: "storageversionmigrations"}},
		Own: []rbac.Rule{
			{Group: "*", Resource: "*", Verbs: []string{"list", "patch"},
				For: "objects that are written anew as they are, and the status of migrations"},
			{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verbs: []string{"get"},
				For: "in which version objects are stored"},
		},
	}
}
