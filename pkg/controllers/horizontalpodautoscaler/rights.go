package horizontalpodautoscaler

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; HPA-65 is the most that its account may have.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: "autoscaling", Name: "horizontalpodautoscalers"}, {Name: "pods"}, {Name: "replicationcontrollers"},
			{Group: "apps", Name: "deployments"}, {Group: "apps", Name: "replicasets"},
			{Group: "apps", Name: "statefulsets"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "autoscaling", Resource: "horizontalpodautoscalers/status", Verbs: []string{"update"},
				For: "status"},
			rbac.Rule{Group: "*", Resource: "*/scale", Verbs: []string{"get", "update"},
				For: "the size of any workload"},
			rbac.Rule{Group: "metrics.k8s.io", Resource: "pods", Verbs: []string{"list"},
				For: "the CPU and memory that pods use"},
			rbac.Rule{Group: "custom.metrics.k8s.io", Resource: "*", Verbs: []string{"get"},
				For: "metrics of pods and of other objects"},
			rbac.Rule{Group: "external.metrics.k8s.io", Resource: "*", Verbs: []string{"list"},
				For: "metrics of anything else"},
		),
	}
}
