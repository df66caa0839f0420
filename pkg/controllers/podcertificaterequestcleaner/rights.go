package podcertificaterequestcleaner

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const group, resource = "certificates.k8s.io", "podcertificaterequests"

// Rights are what the controller asks of the API server; CSR-46 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: resource}},
		Own: []rbac.Rule{{Group: group, Resource: resource, Verbs: []string{"delete"},
			For: "requests for certificates of pods that were made long ago"}},
	}
}
