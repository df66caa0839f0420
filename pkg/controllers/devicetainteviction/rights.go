package devicetainteviction

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

const group = "resource.k8s.io"

// Rights are what the controller asks of the API server; DTE-9 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Group: group, Name: "resourceclaims"}, {Group: group, Name: "resourceslices"},
			{Group: group, Name: "devicetaintrules"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "pods", Verbs: []string{"get"}, For: "a live look at a pod before it is deleted"},
			rbac.Rule{Group: group, Resource: "resourceslices", Verbs: []string{"list"},
				For: "a live look at the slices of a pool before pods with its devices are deleted"},
			rbac.Rule{Group: group, Resource: "devicetaintrules", Verbs: []string{"get"},
				For: "the same, of taints by rules"},
			rbac.Rule{Resource: "pods/status", Verbs: []string{"patch"}, For: "the condition before the deletion"},
			rbac.Rule{Resource: "pods", Verbs: []string{"delete"},
				For: "pods whose claims do not tolerate a taint of a device"},
			rbac.Rule{Group: group, Resource: "devicetaintrules/status", Verbs: []string{"patch"},
				For: "how many pods are left to evict"},
		),
	}
}
