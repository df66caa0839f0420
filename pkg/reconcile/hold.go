package reconcile

import (
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// holds operates the brake of a controller in one term. Something is held as long as one of the keys holds it.
type holds struct {
	brake *brake.Brake // nil: there is none

	mu   sync.Mutex
	keys map[string]int // how many keys hold something, by what it is
}

func newHolds(b *brake.Brake) *holds { return &holds{brake: b, keys: map[string]int{}} }

// replace notes what a key holds now that has held something before; empty for nothing.
func (h *holds) replace(before string, now plan.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before != "" && before != now.What {
		if h.keys[before]--; h.keys[before] == 0 {
			delete(h.keys, before)
			h.brake.Release(before, causeOf(now.Ended))
		}
	}
	if now.What == "" {
		return
	}
	if before != now.What {
		h.keys[now.What]++
	}
	h.brake.Hold(time.Now(), now.What, now.Why)
}

// end ends with the term.
func (h *holds) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for what := range h.keys {
		h.brake.Release(what, brake.NothingLeft)
	}
	clear(h.keys)
}

func causeOf(e plan.HoldEnd) brake.Cause {
	switch e {
	case plan.ByTime:
		return brake.ByTime
	case plan.NothingLeft:
		return brake.NothingLeft
	}
	return brake.ByProof
}

// hold has the brake know what the key holds now.
func (r *run[K, S, D, M]) hold(now plan.Hold) {
	if before := r.state.Held; before != "" || now.What != "" {
		r.runner.holds.replace(before, now)
		r.state.Held = now.What
	}
}
