package job

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server (JOB-112). It has no right to get a pod.
func Rights() rbac.Rights {
	const schedulingGroup = "scheduling.k8s.io"
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Group: "batch", Name: "jobs"}, {Name: "pods"},
			{Group: schedulingGroup, Name: "workloads", Gate: gate},
			{Group: schedulingGroup, Name: "podgroups", Gate: gate},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "batch", Resource: "jobs", Verbs: []string{"get"},
				For: "a live read before an adoption, or before a finalizer is removed because the Job is gone"},
			rbac.Rule{Group: "batch", Resource: "jobs/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "batch", Resource: "jobs/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods", Implied: true},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "running, counting, adoption, release"},
			rbac.Rule{Group: schedulingGroup, Resource: "workloads", Verbs: []string{"create", "patch"},
				For: "how the pods of a Job are scheduled, with the feature gate " + gate, Gate: gate},
			rbac.Rule{Group: schedulingGroup, Resource: "podgroups", Verbs: []string{"create", "patch"},
				For: "the group that the pods of a Job are scheduled as, with the feature gate " + gate, Gate: gate},
		),
	}
}
