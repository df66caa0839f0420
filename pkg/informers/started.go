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
	Name     string // in metrics and health checks; the resource, and with a field selector what is selected of it
	Informer cache.SharedIndexInformer
}

// AllStarted lists the caches of a factory that have been started, by name.
func AllStarted(f informers.SharedInformerFactory) (all []Started) {
	own, ok := f.(*factory)
	if !ok {
		return started(f, "")
	}
	all = started(own.SharedInformerFactory, own.selector)
	for _, part := range own.parts() {
		all = append(all, AllStarted(part)...)
	}
	slices.SortFunc(all, func(a, b Started) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// started lists those of one factory of client-go.
func started(f informers.SharedInformerFactory, selector string) (all []Started) {
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
		name := resource.GroupResource().String()
		all = append(all, Started{Resource: name, Name: cacheName(name, selector), Informer: informer})
	}
	slices.SortFunc(all, func(a, b Started) int { return strings.Compare(a.Name, b.Name) })
	return all
}
