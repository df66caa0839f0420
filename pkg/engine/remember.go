package engine

import (
	"sync"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Memory is what an Observe remembers of each key from one look to the next. The zero Memory is empty and ready for use.
type Memory[T any] struct {
	mu   sync.Mutex
	last map[plan.Key]T
}

// Renew replaces what is remembered of the key by what now makes of it: the zero T if there was nothing. With keep false
// nothing is remembered. No two workers look at one key at a time, so now may take its time.
func (m *Memory[T]) Renew(key plan.Key, now func(before T) (after T, keep bool)) T {
	m.mu.Lock()
	before := m.last[key]
	m.mu.Unlock()
	after, keep := now(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !keep:
		delete(m.last, key)
	case m.last == nil:
		m.last = map[plan.Key]T{key: after}
	default:
		m.last[key] = after
	}
	return after
}

// Forget drops what is remembered of a key that is gone.
func (m *Memory[T]) Forget(key plan.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, key)
}

// Len counts the keys that something is remembered of.
func (m *Memory[T]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.last)
}
