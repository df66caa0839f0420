package usage

import (
	"context"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// flushAfter is how long changes are gathered before their quotas are looked at: many objects go together.
	flushAfter = 100 * time.Millisecond
	// flushEvery is the time between two such looks. Without it, the quotas of a namespace in which objects come and
	// go all the time would be written for each of them.
	flushEvery = 500 * time.Millisecond
)

// changes gathers the quotas whose sums have changed.
type changes struct {
	signal chan struct{}

	mu   sync.Mutex
	keys map[plan.Key]bool
}

// add notes that the sums of a quota have changed. Several changes before it is looked at are one.
func (c *changes) add(key plan.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[key] {
		return
	}
	if c.keys == nil {
		c.keys = map[plan.Key]bool{}
	}
	c.keys[key] = true
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// take returns the quotas whose sums have changed, and begins anew.
func (c *changes) take() map[plan.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = nil
	return keys
}

// run enqueues what was gathered, until ctx ends.
func (c *changes) run(ctx context.Context, enqueue func(plan.Key)) {
	pause := func(wait time.Duration) bool {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		select {
		case <-c.signal:
		case <-ctx.Done():
			return
		}
		if !pause(flushAfter) {
			return
		}
		for key := range c.take() {
			enqueue(key)
		}
		if !pause(flushEvery - flushAfter) {
			return
		}
	}
}
