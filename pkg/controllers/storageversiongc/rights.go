package storageversiongc

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const group, resource = "internal.apiserver.k8s.io", "storageversions"

// Rights are what the controller asks of the API server; SVG-4 is the most that its account may have.
func Rights() rbac.Rights {
	const leases = "coordination.k8s.io"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: leases, Name: "leases"}, {Group: group, Name: resource}},
		Own: []rbac.Rule{
			{Group: leases, Resource: "leases", Verbs: []string{"get"},
				For: "a live look at whether an API server is gone"},
			{Group: group, Resource: resource, Verbs: []string{"delete"},
				For: "StorageVersions of which no API server is left"},
			{Group: group, Resource: resource + "/status", Verbs: []string{"patch"},
				For: "entries of API servers that are gone"},
		},
	}
}
