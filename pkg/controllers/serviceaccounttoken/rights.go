package serviceaccounttoken

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server, with the root identity (TOK-22).
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "secrets"}, {Name: "serviceaccounts"}},
		Own: []rbac.Rule{
			{Resource: "secrets", Verbs: []string{"update", "delete"}, For: "Secrets with tokens of service accounts"},
			{Resource: "serviceaccounts", Verbs: []string{"get"},
				For: "a live read before a Secret is deleted because its ServiceAccount is gone"},
			{Resource: "serviceaccounts", Verbs: []string{"update"},
				For: "references to Secrets with tokens that are gone"},
		},
	}
}
