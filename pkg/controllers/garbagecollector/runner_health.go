package garbagecollector

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// health is what health checks and metrics read. It has a lock of its own, so that they answer while the graph is busy.
type health struct {
	mu           sync.Mutex
	sub          *metadata.Subscription // nil while the controller does not run
	parts        reconcile.Part         // nil while the controller does not run
	undiscovered error                  // why nothing at all is known of what to watch
	listing      sets.Set[schema.GroupVersionResource]
}

// begin notes what runs from now on.
func (h *health) begin(sub *metadata.Subscription, parts reconcile.Part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sub, h.parts, h.undiscovered, h.listing = sub, parts, nil, nil
}

func (h *health) setUndiscovered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undiscovered = err
}

// setListing notes which resources are still waited for.
func (h *health) setListing(resources sets.Set[schema.GroupVersionResource]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listing = resources.Clone()
}

// Unlisted names what could not be listed in time, for a health check (REG-103).
func (r *runner) Unlisted() (all []string) {
	r.health.mu.Lock()
	sub, undiscovered, listing := r.health.sub, r.health.undiscovered, r.health.listing
	r.health.mu.Unlock()
	switch {
	case sub == nil:
		return nil
	case undiscovered != nil:
		return []string{"all resources (" + undiscovered.Error() + ")"}
	}
	for _, resource := range slices.DeleteFunc(sub.Resources(), sub.Synced) {
		if !listing.Has(resource) {
			all = append(all, resource.GroupResource().String())
		}
	}
	return all
}

// Statuses says how the queues do, for health checks and metrics.
func (r *runner) Statuses() []reconcile.Status {
	r.health.mu.Lock()
	parts := r.health.parts
	r.health.mu.Unlock()
	if parts == nil {
		return []reconcile.Status{{Name: explainName}}
	}
	return parts.Statuses()
}
