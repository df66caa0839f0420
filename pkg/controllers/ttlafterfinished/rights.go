package ttlafterfinished

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; TTL-33 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "batch", Name: "jobs"}},
		Own: []rbac.Rule{{Group: "batch", Resource: "jobs", Verbs: []string{"delete"},
			For: "finished Jobs whose time to live is over"}},
	}
}
