package vacprotection

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; ST-45 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: "storage.k8s.io", Name: "volumeattributesclasses"}, {Name: "persistentvolumeclaims"},
			{Name: "persistentvolumes"},
		},
		Own: []rbac.Rule{{
			Group: "storage.k8s.io", Resource: "volumeattributesclasses", Verbs: []string{"update"},
			For: "finalizers of VolumeAttributesClasses",
		}},
	}
}
