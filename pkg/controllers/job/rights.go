package job

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server (JOB-112). It has no right to get a pod.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "batch", Name: "jobs"}, {Name: "pods"}},
		Own: append(rbac.Events(),
			rbac.Rule{Group: "batch", Resource: "jobs", Verbs: []string{"get"},
				For: "a live read before an adoption, or before a finalizer is removed because the Job is gone"},
			rbac.Rule{Group: "batch", Resource: "jobs/status", Verbs: []string{"update"}, For: "status"},
			rbac.Rule{Group: "batch", Resource: "jobs/finalizers", Verbs: []string{"update"},
				For: "blockOwnerDeletion of its pods", Implied: true},
			rbac.Rule{Resource: "pods", Verbs: []string{"create", "patch", "delete"},
				For: "running, counting, adoption, release"},
		),
	}
}
