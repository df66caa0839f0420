package serviceaccount

import (
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByAccount returns the namespace of a ServiceAccount called default that was deleted (SA-2). Others don't
// matter.
func enqueuedByAccount(before, after plan.Object) []plan.Key {
	if after != nil || before.GetName() != defaultName {
		return nil
	}
	return []plan.Key{{Name: before.GetNamespace()}}
}
