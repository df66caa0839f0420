package queue

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Slots bound how many requests are under way at a time. Those that wait for a slot take turns like keys: namespaces do, and in a namespace the
// owners for which the requests are made.
type Slots struct {
	mu      sync.Mutex
	used    int
	most    int
	waiting turns[chan struct{}] // closed when the turn has come
}

// NewSlots returns that many slots.
func NewSlots(most int) *Slots { return &Slots{most: most} }

// Take takes a slot when its turn has come, and returns an error if ctx ends before that.
func (s *Slots) Take(ctx context.Context, namespace string, owner types.UID) error {
	turn := &spot[chan struct{}]{}
	s.mu.Lock()
	if s.used < s.most { // nobody waits
		s.used++
		s.mu.Unlock()
		return nil
	}
	turn.of = make(chan struct{})
	s.waiting.push(place{namespace: namespace, owner: owner}, turn)
	s.mu.Unlock()
	select {
	case <-turn.of:
		return nil
	case <-ctx.Done():
		s.leave(turn)
		return ctx.Err()
	}
}

// leave is called when somebody waits no longer.
func (s *Slots) leave(turn *spot[chan struct{}]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn.of: // it was given a slot at the same moment
		s.release()
	default:
		s.waiting.remove(turn)
	}
}

// Release gives a slot back, or on to whose turn it is.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

func (s *Slots) release() {
	if s.waiting.empty() {
		s.used--
		return
	}
	close(s.waiting.pop())
}

// Used counts the slots that are taken.
func (s *Slots) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
