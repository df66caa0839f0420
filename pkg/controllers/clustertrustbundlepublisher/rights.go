package clustertrustbundlepublisher

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const group, resource = "certificates.k8s.io", "clustertrustbundles"

// Rights are what the controller asks of the API server; CTB-6 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: resource}},
		Own: []rbac.Rule{
			{Group: group, Resource: resource, Verbs: []string{"create", "update", "delete"},
				For: "the bundle with the authorities of the API server, and others of its signer"},
			{Group: group, Resource: "signers", Verbs: []string{"attest"}, Names: []string{signer}, Implied: true,
				For: "such bundles: admission asks for it"},
		},
	}
}
