package reconcile

import (
	"maps"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// vanishedAfter is how long after a creation the caches are looked at for the first time, and the time between two looks.
const vanishedAfter = 2 * time.Second

// creations are the objects that a controller has created and that its caches may not show yet. An object that is deleted while a watch is
// interrupted is never shown: a new list lacks it, and no event tells of that. So the key for which it was created is enqueued when the caches
// have come as far as the creation and lack the object.
type creations struct {
	caches  freshness.Caches
	enqueue func(plan.Key)

	mu      sync.Mutex
	pending map[freshness.Created]plan.Key
	timer   *time.Timer // nil while nothing is pending
	ended   bool
}

func newCreations(caches freshness.Caches, enqueue func(plan.Key)) *creations {
	return &creations{caches: caches, enqueue: enqueue, pending: map[freshness.Created]plan.Key{}}
}

// add notes what was created for a key.
func (c *creations) add(key plan.Key, created []freshness.Created) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range created {
		c.pending[o] = key
	}
	c.schedule()
}

// schedule plans the next look, if there is something to look for.
func (c *creations) schedule() {
	if c.timer == nil && len(c.pending) > 0 && !c.ended {
		c.timer = time.AfterFunc(vanishedAfter, c.look)
	}
}

// look forgets what the caches show, and enqueues the keys of what is missing.
func (c *creations) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if c.ended {
		return
	}
	maps.DeleteFunc(c.pending, func(o freshness.Created, key plan.Key) bool {
		done, missing := c.caches.Shown(o)
		if missing {
			c.enqueue(key)
		}
		return done
	})
	c.schedule()
}

// end stops looking.
func (c *creations) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
