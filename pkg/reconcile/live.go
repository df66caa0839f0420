package reconcile

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// LiveOf returns the set of objects of a built-in kind that a selector matches in a namespace. cached is what the
// cache shows of it.
func LiveOf[T plan.Object](namespace string, selector labels.Selector, cached []T) Live {
	return Live{Kind: client.KindFor[T](), Namespace: namespace, Selector: selector, Cached: plan.Objects(cached)}
}
