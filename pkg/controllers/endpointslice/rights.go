package endpointslice

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; EPS-68 to EPS-71 are the most that its account may have.
func Rights() rbac.Rights {
	const group = "discovery.k8s.io"
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "services"}, {Name: "pods"}, {Name: "nodes"},
			{Group: group, Name: "endpointslices"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "services/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its EndpointSlices", Implied: true},
			rbac.Rule{Group: group, Resource: "endpointslices", Verbs: []string{"create", "update", "delete"},
				For: "the EndpointSlices of Services"},
		),
	}
}
