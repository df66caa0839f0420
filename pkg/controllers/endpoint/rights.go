package endpoint

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; RB-3 and RB-4 are the most that its account may have. A
// cluster that restricts addresses in Endpoints (OpenShift) wants "create" on "endpoints/restricted" besides (RB-4b).
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Name: "services"}, {Name: "pods"}, {Name: "endpoints"}},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "services", Verbs: []string{"get"},
				For: "a live read before Endpoints are deleted as left over"},
			rbac.Rule{Resource: "endpoints", Verbs: []string{"get"},
				For: "a live read of Endpoints whose name is taken"},
			rbac.Rule{Resource: "endpoints", Verbs: []string{"list"}, For: "--endpoint-cleanup-when-disabled"},
			rbac.Rule{Resource: "endpoints", Verbs: []string{"create", "update", "delete"},
				For: "the Endpoints of Services"},
		),
	}
}
