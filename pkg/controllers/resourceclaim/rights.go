package resourceclaim

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const group = "resource.k8s.io"

// Rights are what the controller asks of the API server; RC-163 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Group: group, Name: "resourceclaims"}, {Group: group, Name: "resourceclaimtemplates"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "pods", Verbs: []string{"get"}, For: "a live look at who has reserved a claim"},
			rbac.Rule{Resource: "pods/status", Verbs: []string{"patch"}, For: "the names of a pod's claims"},
			rbac.Rule{Group: group, Resource: "resourceclaims", Verbs: []string{"create", "delete", "get", "patch"},
				For: "claims of templates, and their finalizer"},
			rbac.Rule{Group: group, Resource: "resourceclaims/status", Verbs: []string{"patch"},
				For: "reservations and allocations"},
			rbac.Rule{Group: group, Resource: "resourceclaims/binding", Verbs: []string{"patch", "update"},
				For: "reservations and allocations, of which servers since 1.36 ask for this, too", Implied: true},
		),
	}
}
