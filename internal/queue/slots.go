package queue

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Slots bound how many requests are under way at a time. Those that wait for a slot take turns like keys: namespaces
// do, and in a namespace the owners for which the requests are made. While another namespace waits, none is given
// more than half of the slots.
type Slots struct {
	mu      sync.Mutex
	shares  shares
	waiting turns[chan struct{}] // closed when the turn has come
}

// NewSlots returns that many slots.
func NewSlots(most int) *Slots { return &Slots{shares: shares{limit: most}} }

// Take takes a slot when its turn has come, and returns an error if ctx ends before that. The slot is released with
// the same namespace.
func (s *Slots) Take(ctx context.Context, namespace string, owner types.UID) error {
	turn := &spot[chan struct{}]{}
	s.mu.Lock()
	if s.shares.free(namespace) { // nobody waits who could have it
		s.shares.take(namespace)
		s.mu.Unlock()
		return nil
	}
	turn.Value = make(chan struct{})
	s.waiting.push(place{namespace: namespace, owner: owner}, turn)
	s.mu.Unlock()
	select {
	case <-turn.Value:
		return nil
	case <-ctx.Done():
		s.leave(turn, namespace)
		return ctx.Err()
	}
}

// leave is called when somebody waits no longer.
func (s *Slots) leave(turn *spot[chan struct{}], namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn.Value: // it was given a slot at the same moment
		s.release(namespace)
	default:
		s.waiting.remove(turn)
	}
}

// Release gives a slot of a namespace back, or on to whose turn it is.
func (s *Slots) Release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(namespace)
}

// release gives a slot of a namespace to whoever waits for it next. It is called under the lock.
func (s *Slots) release(of string) {
	s.shares.release(of)
	next := s.waiting.namespaces.FirstWhere(func(n *namespace[chan struct{}]) bool { return s.shares.modest(n.name()) })
	if next == nil || !s.shares.free(next.Value.name()) {
		return
	}
	s.shares.take(next.Value.name())
	close(s.waiting.popOf(next.Value))
}

// Used counts the slots that are taken.
func (s *Slots) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.used
}
