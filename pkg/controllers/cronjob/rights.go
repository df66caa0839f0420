package cronjob

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; CJ-81 is the most that its account may have.
func Rights() rbac.Rights {
	const group = "batch"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: "cronjobs"}, {Group: group, Name: "jobs"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: group, Resource: "cronjobs/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: group, Resource: "cronjobs/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its Jobs", Implied: true},
			rbac.Rule{Group: group, Resource: "jobs", Verbs: []string{"get"},
				For: "whether an active Job that the cache lacks exists"},
			rbac.Rule{Group: group, Resource: "jobs", Verbs: []string{"create", "delete"},
				For: "the Jobs of a schedule, and the history limits"},
		),
	}
}
