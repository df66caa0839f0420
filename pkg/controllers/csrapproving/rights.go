package csrapproving

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Rights are what the controller asks of the API server; CSR-44 is the most that its account may have.
func Rights() rbac.Rights {
	const group, requests = "certificates.k8s.io", "certificatesigningrequests"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: requests}},
		Own: []rbac.Rule{
			{Group: group, Resource: requests + "/approval", Verbs: []string{"update"},
				For: "approvals of requests for the client certificates of kubelets"},
			{
				Group: group, Resource: "signers", Verbs: []string{"approve"},
				Names:   []string{certificatesv1.KubeAPIServerClientKubeletSignerName},
				Implied: true, For: "approvals: admission asks for it",
			},
			{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"},
				For: "whether who asks may have a certificate"},
		},
	}
}
