package informers

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/apis"
)

// CacheStatus is one of the caches of a process.
type CacheStatus struct {
	Resource string // with its group: "pods" for the core group, "deployments.apps" for others
	Name     string // in metrics and health checks; the resource, and with a field selector what is selected of it
	Informer cache.SharedIndexInformer

	version string
	gate    *apis.Gate // nil if the API is not one that may be missing
	waited  bool       // somebody who asked for it has not said that it may be missing
}

// Missing reports whether the API server does not serve the resource, and nobody waits for that.
func (s CacheStatus) Missing() bool { return !s.waited && s.gate.Missing() }

// CacheStatuses lists the caches of a factory that have been started, by name.
func CacheStatuses(f *Factory) (all []CacheStatus) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if !f.all.started {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.all.caches)) {
		all = append(all, f.all.caches[name])
	}
	return all
}

// StartedInformer returns the cache of all objects of a resource, in that version, if it has been started; otherwise
// nil.
func StartedInformer(f *Factory, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	c, ok := f.all.caches[cacheName(resource.GroupResource().String(), "")]
	if !f.all.started || !ok || c.version != resource.Version {
		return nil
	}
	return c.Informer
}
