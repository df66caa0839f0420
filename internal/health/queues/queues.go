package queues

import (
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Stuck returns which worker has been at a key without progress for longer than the bound; nil if none has.
func Stuck(queues []reconcile.Status, bound time.Duration) error {
	for _, s := range queues {
		if s.Stuck > bound {
			return fmt.Errorf("a worker has been at %s for %v without progress", s.Key, s.Stuck.Round(time.Second))
		}
	}
	return nil
}

// Idle returns in which queue keys wait, of which none has been taken for longer than the bound; nil if there is none.
func Idle(queues []reconcile.Status, bound time.Duration) error {
	for _, s := range queues {
		if s.Idle > bound {
			return fmt.Errorf("%d keys wait, and none has been taken for %v", s.Queued, s.Idle.Round(time.Second))
		}
	}
	return nil
}
