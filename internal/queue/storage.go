package queue

import (
	"sync"
	"time"
)

// ageingInterval: every so many turns the key that has waited longest in its namespace goes first, whatever its priority, so that none
// starves. Namespaces take turns in this, too.
const ageingInterval = 16

// storage is the storage of a work queue (workqueue.Queue). It hands out keys by priority, and among equals by turns.
type storage[K comparable] struct {
	namespace func(K) string

	mu      sync.Mutex
	wanted  map[K]Priority // of keys, for when they are next added
	queued  map[K]*entry[K]
	levels  [levelCount]turns[*entry[K]]
	arrived turns[*entry[K]] // all that are queued, in one line for each namespace
	pops    int
	filled  time.Time // when a key was last put into it while it was empty
}

type entry[K comparable] struct {
	key K
	Priority
	since   time.Time // when it was queued
	turn    spot[*entry[K]]
	arrival spot[*entry[K]]
}

func newStorage[K comparable](namespace func(K) string) *storage[K] {
	return &storage[K]{namespace: namespace, wanted: map[K]Priority{}, queued: map[K]*entry[K]{}}
}

// prioritize says which priority the key has when it is next added. The highest wish wins.
func (s *storage[K]) prioritize(k K, p Priority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.wanted[k]; !ok || p.before(known) {
		s.wanted[k] = p
	}
}

// Push queues a key that is not queued (workqueue.Queue).
func (s *storage[K]) Push(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.queued) == 0 {
		s.filled = now
	}
	e := &entry[K]{key: k, Priority: s.take(k), since: now}
	e.turn.of, e.arrival.of = e, e
	s.queued[k] = e
	namespace := s.namespace(k)
	s.levels[e.Level].push(e.place(namespace), &e.turn)
	s.arrived.push(place{namespace: namespace}, &e.arrival)
}

// Touch is called for a key that is queued already and added again (workqueue.Queue).
func (s *storage[K]) Touch(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.queued[k]
	if e == nil {
		return
	}
	if p := s.take(k); p.before(e.Priority) {
		s.levels[e.Level].remove(&e.turn)
		e.Priority = p
		s.levels[e.Level].push(e.place(s.namespace(k)), &e.turn)
	}
}

// Len counts the queued keys (workqueue.Queue).
func (s *storage[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// waiting counts the queued keys, and tells since when there have been some.
func (s *storage[K]) waiting() (n int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued), s.filled
}

// longestWait returns how long the key has been queued that has been so for the longest.
func (s *storage[K]) longestWait() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, l := range s.arrived.lines {
		longest = max(longest, now.Sub(l.waiting.first.of.since))
	}
	return longest
}

// some returns n of the queued keys, or all if there are fewer, in no particular order.
func (s *storage[K]) some(n int) []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]K, 0, min(n, len(s.queued)))
	for key := range s.queued {
		if len(keys) == n {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// Pop takes out the key whose turn it is (workqueue.Queue). It is called only when Len is not zero.
func (s *storage[K]) Pop() K {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e *entry[K]
	if s.pops++; s.pops%ageingInterval == 0 {
		e = s.arrived.pop()
		s.levels[e.Level].remove(&e.turn)
	} else {
		e = s.first().pop()
		s.arrived.remove(&e.arrival)
	}
	delete(s.queued, e.key)
	return e.key
}

// first returns the first level that has a key; the last one if none has.
func (s *storage[K]) first() *turns[*entry[K]] {
	at := 0
	for at < len(s.levels)-1 && s.levels[at].empty() {
		at++
	}
	return &s.levels[at]
}

// take returns the priority that was wished for the key, and forgets the wish.
func (s *storage[K]) take(k K) Priority {
	p, ok := s.wanted[k]
	if !ok {
		return Priority{Level: Changed}
	}
	delete(s.wanted, k)
	return p
}
