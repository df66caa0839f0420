package clusterroleaggregation

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SM-10 is the most that its account may have.
func Rights() rbac.Rights {
	const group, resource = "rbac.authorization.k8s.io", "clusterroles"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: resource}},
		Own: []rbac.Rule{
			{Group: group, Resource: resource, Verbs: []string{"get"},
				For: "whether rules that are to go were aggregated or written by others"},
			{Group: group, Resource: resource, Verbs: []string{"patch"},
				For: "the rules of ClusterRoles that aggregate others"},
			{Group: group, Resource: resource, Verbs: []string{"escalate"},
				For: "rules that the account does not have itself", Implied: true},
		},
	}
}
