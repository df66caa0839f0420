package disruption

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; DIS-44 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "pods"}, {Group: "policy", Name: "poddisruptionbudgets"}, {Name: "replicationcontrollers"},
			{Group: "apps", Name: "replicasets"}, {Group: "apps", Name: "deployments"},
			{Group: "apps", Name: "statefulsets"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "policy", Resource: "poddisruptionbudgets/status", Verbs: []string{"update"},
				For: "the status of PodDisruptionBudgets"},
			rbac.Rule{Resource: "pods/status", Verbs: []string{"patch"},
				For: "the condition of pods that were not disrupted after all"},
			rbac.Rule{Group: "*", Resource: "*/scale", Verbs: []string{"get"},
				For: "how many pods their owners are meant to have"},
		),
	}
}
