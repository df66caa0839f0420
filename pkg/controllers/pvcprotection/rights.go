package pvcprotection

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SM-40 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "persistentvolumeclaims"}, {Name: "pods"}},
		Own: []rbac.Rule{
			{Resource: "events", Verbs: []string{"create"}, For: "events"},
			{Resource: "events", Verbs: []string{"patch"},
				For: "events that are repeated when the same process leads again", Implied: true},
			{Resource: "persistentvolumeclaims", Verbs: []string{"update"},
				For: "finalizers of PersistentVolumeClaims"},
			{Resource: "persistentvolumeclaims/status", Verbs: []string{"update"},
				For: "the condition Unused of PersistentVolumeClaims"},
			{Resource: "pods", Verbs: []string{"list"},
				For: "a live look at the pods of a namespace before a claim may go"},
		},
	}
}
