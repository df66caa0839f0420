package persistentvolumebinder

import "github.com/standalone-kcm/controller-manager/pkg/rbac"

// Rights are what the controller asks of the API server; PV-64 is the most that its account may have. There is no
// patch among them: each write is an update of the version that was observed, by which races are decided.
func Rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{
			{Name: "persistentvolumeclaims"}, {Name: "persistentvolumes"}, {Name: "pods"},
			{Group: "storage.k8s.io", Name: "storageclasses"}, {Group: "storage.k8s.io", Name: "csidrivers"},
			{Group: "storage.k8s.io", Name: "csinodes"},
		},
		Own: append(rbac.Events(),
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"get"},
				For: "a live read before a volume is released, and before it is bound again"},
			rbac.Rule{Resource: "persistentvolumeclaims", Verbs: []string{"update"},
				For: "the volume of a claim, its class, and the driver that is asked"},
			rbac.Rule{Resource: "persistentvolumeclaims/status", Verbs: []string{"update"},
				For: "phase and capacity of claims"},
			rbac.Rule{Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"get"},
				For: "a live read before a claim is treated as one whose class does not exist"},
			rbac.Rule{Resource: "persistentvolumes", Verbs: []string{"get"},
				For: "a live read before a claim is declared Lost"},
			rbac.Rule{Resource: "persistentvolumes", Verbs: []string{"update"},
				For: "the claim of a volume, and its finalizers"},
			rbac.Rule{Resource: "persistentvolumes/status", Verbs: []string{"update"}, For: "phase of volumes"},
		),
	}
}
