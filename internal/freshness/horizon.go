package freshness

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Horizon reports whether caches show all that was written before a moment. Each of them may lack something else. The
// methods are safe for concurrent use.
type Horizon struct {
	mu sync.Mutex
	// versions are how far the server was; nil until it has said so.
	versions map[schema.GroupVersionKind]string
	// shown says that the caches have come that far. They do not fall back.
	shown bool
}

// Set says how far the server was at that moment, by kind.
func (h *Horizon) Set(versions map[schema.GroupVersionKind]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = versions
}

// ShownBy reports whether the caches show all of it; false until it is known how far the server was. Once they do,
// they always will.
func (h *Horizon) ShownBy(caches Caches) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.versions == nil || h.shown {
		return h.shown
	}
	for kind, version := range h.versions {
		if !caches.Reached(kind, version) {
			return false
		}
	}
	h.shown = true
	return true
}
