package podgroupprotection

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; PGP-5 is the most that its account may have. Those on
// CompositePodGroups are there only where an API server has the kind (PGP-5).
func Rights() rbac.Rights {
	const group, groups, composites = "scheduling.k8s.io", "podgroups", "compositepodgroups"
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "pods"}, {Group: group, Name: groups}, {Group: group, Name: composites}},
		Own: []rbac.Rule{
			{Group: group, Resource: groups, Verbs: []string{"update"}, For: "finalizers of PodGroups"},
			{Group: group, Resource: composites, Verbs: []string{"update"}, For: "finalizers of CompositePodGroups",
				Implied: true},
			{Resource: "pods", Verbs: []string{"list"}, For: "a live look at the pods before a PodGroup may go",
				Implied: true},
			{Group: group, Resource: groups, Verbs: []string{"list"},
				For: "a live look at the PodGroups before a CompositePodGroup may go", Implied: true},
			{Group: group, Resource: composites, Verbs: []string{"list"},
				For: "a live look at the CompositePodGroups before their parent may go", Implied: true},
		},
	}
}
