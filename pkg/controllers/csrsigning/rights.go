package csrsigning

import (
	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Rights are what the controller asks of the API server; CSR-44 is the most that its account may have.
func Rights() rbac.Rights {
	const group, requests = "certificates.k8s.io", "certificatesigningrequests"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: requests}},
		Own: []rbac.Rule{
			{Group: group, Resource: requests + "/status", Verbs: []string{"update"},
				For: "certificates, and requests that cannot be signed"},
			{
				Group: group, Resource: "signers", Verbs: []string{"sign"}, Names: csrutil.Signers(),
				Implied: true, For: "certificates: admission asks for it",
			},
		},
	}
}
