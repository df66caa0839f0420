package rootcacertpublisher

import (
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByConfigMap returns the namespace of a ConfigMap that was changed or deleted (RCA-4).
func enqueuedByConfigMap(before, _ plan.Object) []plan.Key {
	if before == nil || before.GetName() != configMapName {
		return nil
	}
	return []plan.Key{{Name: before.GetNamespace()}}
}
