package resourceclaim

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const (
	resources  = "resource.k8s.io"
	scheduling = "scheduling.k8s.io"
)

// Rights are what the controller asks of the API server; RC-163 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Group: resources, Name: "resourceclaims"},
			{Group: resources, Name: "resourceclaimtemplates"},
			{Group: scheduling, Name: "podgroups", Gate: claimsGate},
		},
		Own: []rbac.Rule{
			{Resource: "events", Verbs: []string{"create"}, For: "claims that cannot be made"},
			{Resource: "events", Verbs: []string{"patch"}, For: "such an event that is repeated", Implied: true},
			{Resource: "pods", Verbs: []string{"get"}, For: "a live look at who has reserved a claim"},
			{Resource: "pods/status", Verbs: []string{"patch"}, For: "the names of a pod's claims"},
			{Group: resources, Resource: "resourceclaims", Verbs: []string{"create", "delete", "patch"},
				For: "claims of templates, and their finalizer"},
			{Group: resources, Resource: "resourceclaims", Verbs: []string{"get"},
				For: "a live look at a claim that a pod records and the cache lacks", Implied: true},
			{Group: resources, Resource: "resourceclaims/status", Verbs: []string{"patch"},
				For: "reservations and allocations"},
			{Group: resources, Resource: "resourceclaims/binding", Verbs: []string{"patch", "update"},
				For: "reservations and allocations, of which servers since 1.36 ask for this, too", Implied: true},
			{Group: scheduling, Resource: "podgroups", Verbs: []string{"get"}, Gate: claimsGate, Implied: true,
				For: "a live look at who has reserved a claim, with the feature gate " + claimsGate},
			{Group: scheduling, Resource: "podgroups/status", Verbs: []string{"patch"}, Gate: claimsGate,
				For: "the names of a PodGroup's claims, with the feature gate " + claimsGate},
		},
	}
}
