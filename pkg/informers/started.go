package informers

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// Started is one of the caches of a process.
type Started struct {
	Resource string // with its group: "pods" for the core group, "deployments.apps" for others
	Informer cache.SharedIndexInformer
}

// AllStarted lists the caches of a factory that have been started, by resource.
func AllStarted(f informers.SharedInformerFactory) (all []Started) {
	done, cancel := context.WithCancel(context.Background())
	cancel() // to be told which there are, and not to wait for them
	for t := range f.WaitForCacheSyncWithContext(done).Synced {
		example, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
		if !ok {
			continue
		}
		kinds, _, err := scheme.Scheme.ObjectKinds(example)
		if err != nil {
			continue // not reached: the factory has only types of the scheme
		}
		resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
		informer := f.InformerFor(example, nil) // there is one, so none is made
		all = append(all, Started{resource.GroupResource().String(), informer})
	}
	slices.SortFunc(all, func(a, b Started) int { return strings.Compare(a.Resource, b.Resource) })
	return all
}
