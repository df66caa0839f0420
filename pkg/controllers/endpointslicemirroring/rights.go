package endpointslicemirroring

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; ESM-25 has the most that its account may have.
func Rights() rbac.Rights {
	const group = "discovery.k8s.io"
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "services"}, {Name: "endpoints"}, {Group: group, Name: "endpointslices"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "endpoints/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its EndpointSlices", Implied: true},
			rbac.Rule{Group: group, Resource: "endpointslices", Verbs: []string{"create", "update", "delete"},
				For: "the EndpointSlices that mirror Endpoints"},
		),
	}
}
