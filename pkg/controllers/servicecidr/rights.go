package servicecidr

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; SCC-8 is the most that its account may have.
func Rights() rbac.Rights {
	const group, ranges, addresses = "networking.k8s.io", "servicecidrs", "ipaddresses"
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: group, Name: ranges}, {Group: group, Name: addresses}},
		Own: []rbac.Rule{
			{Resource: "events", Verbs: []string{"create"}, For: "a status of a ServiceCIDR that cannot be written",
				Implied: true},
			{Resource: "events", Verbs: []string{"patch"}, For: "such an event that is repeated", Implied: true},
			{Group: group, Resource: ranges, Verbs: []string{"patch"}, For: "finalizers of ServiceCIDRs"},
			{Group: group, Resource: ranges + "/status", Verbs: []string{"patch"},
				For: "the condition Ready of ServiceCIDRs"},
			{Group: group, Resource: ranges, Verbs: []string{"list"},
				For: "a live look at the other ServiceCIDRs before one may go"},
			{Group: group, Resource: addresses, Verbs: []string{"list"},
				For: "a live look at the addresses before a ServiceCIDR may go"},
		},
	}
}
