package tokencleaner

import (
	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// Rights are what the controller asks of the API server; BOOT-28 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "secrets"}},
		In: map[string][]rbac.Rule{bootstraptoken.Namespace: {
			{Resource: "secrets", Verbs: []string{"delete"}, For: "bootstrap tokens that have expired"},
		}},
	}
}
