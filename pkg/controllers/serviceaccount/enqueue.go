package serviceaccount

import (
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByNamespace returns the namespace if it is new or has changed (SA-2).
func enqueuedByNamespace(_, after plan.Object) []plan.Key {
	if after == nil {
		return nil
	}
	return []plan.Key{{Name: after.GetName()}}
}

// enqueuedByAccount returns the namespace of a ServiceAccount called default that was deleted (SA-2). Others don't
// matter.
func enqueuedByAccount(before, after plan.Object) []plan.Key {
	if after != nil || before.GetName() != defaultName {
		return nil
	}
	return []plan.Key{{Name: before.GetNamespace()}}
}
