package informers

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/apis"
)

// WithAPIs returns the same factory for somebody who does not work without some APIs, and uses others when they are
// served. Caches of these hold up nobody else while their APIs are missing. A watch of what is used is not waited for
// then, see [reconcile.Watch].
func (f *Factory) WithAPIs(needs, uses []schema.GroupVersionResource) *Factory {
	of := *f
	of.needs, of.uses = needs, uses
	return &of
}

// mayLack reports whether whoever has the factory has said that the resource may be missing.
func (f *Factory) mayLack(resource schema.GroupVersionResource) bool {
	return slices.Contains(f.needs, resource) || slices.Contains(f.uses, resource)
}

// gate returns the gate of a cache; nil if the API is not one that may be missing.
func (f *Factory) gate(resource schema.GroupVersionResource) *apis.Gate {
	if f.all.client == nil {
		return nil
	}
	return f.all.client.Gate(resource, cacheName(resource.GroupResource().String(), f.selector))
}

// of returns the factory of client-go that the informer of a resource belongs to.
func (f *Factory) of(resource schema.GroupVersionResource) informers.SharedInformerFactory {
	if f.gate(resource) == nil {
		return f.SharedInformerFactory
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	return f.all.factories[which{f.selector, true}]
}

// Missing reports whether the API server does not serve the kind, as far as is known. The cache is then empty, or
// holds what it did when the API was served last. It is always false of kinds that no controller declares that it
// needs or uses.
func (s Store[T]) Missing() bool { return s.gate.Missing() }

// waitForGated waits for the caches of APIs that may be missing, but are not. It returns false if ctx ends before.
func (f *Factory) waitForGated(ctx context.Context) bool {
	for _, c := range CacheStatuses(f) {
		if c.gate == nil {
			continue
		}
		if !cache.WaitForCacheSync(ctx.Done(), func() bool { return c.Missing() || c.Informer.HasSynced() }) {
			return false
		}
	}
	return true
}
