package csrcleaner

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; CSR-44 is the most that its account may have.
func Rights() rbac.Rights {
	const group, requests = "certificates.k8s.io", "certificatesigningrequests"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: requests}},
		Own: []rbac.Rule{{Group: group, Resource: requests, Verbs: []string{"delete"},
			For: "requests for certificates that nobody needs any more"}},
	}
}
