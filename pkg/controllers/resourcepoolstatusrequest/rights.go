package resourcepoolstatusrequest

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RPS-12 is the most that its account may have.
func Rights() rbac.Rights {
	const group, requests, slices = "resource.k8s.io", "resourcepoolstatusrequests", "resourceslices"
	const claims, rules = "resourceclaims", "devicetaintrules"
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: group, Name: requests}, {Group: group, Name: slices}, {Group: group, Name: claims},
			{Group: group, Name: rules},
		},
		Own: []rbac.Rule{
			{Group: group, Resource: requests + "/status", Verbs: []string{"patch"}, For: "answers to requests"},
			{Group: group, Resource: requests, Verbs: []string{"delete"},
				For: "requests that were answered an hour ago", Implied: true},
			{Group: group, Resource: slices, Verbs: []string{"list"},
				For: "a live look at devices where the cache is late", Implied: true},
			{Group: group, Resource: claims, Verbs: []string{"list"},
				For: "a live look at allocations where the cache is late", Implied: true},
			{Group: group, Resource: rules, Verbs: []string{"list"},
				For: "a live look at taints where the cache is late", Implied: true},
		},
	}
}
