package queue

import (
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/list"
)

// ageingInterval: of the turns of a namespace, every so many is that of the key that has waited longest in it,
// whatever its priority, so that none starves.
const ageingInterval = 16

// storage is the storage of a work queue (workqueue.Queue). Namespaces take turns. In a namespace, it hands out keys
// by priority, and among equals by turns of their owners. So what one namespace has queued costs another one no more
// than every second turn; and how long its keys take, no more than half of the workers.
type storage[K comparable] struct {
	namespace func(K) string

	mu     sync.Mutex
	wanted map[K]Priority // of keys, for when they are next added
	queued map[K]*entry[K]
	turns  list.List[*waiting[K]] // namespaces with keys; the first one is next
	byName map[string]*waiting[K]
	spare  *waiting[K] // of a namespace that has no keys any more, to be used again; may be nil
	filled time.Time   // when a key was last put into it while it was empty
	shares shares      // of namespaces in the keys that are being processed
}

// waiting are the queued keys of one namespace.
type waiting[K comparable] struct {
	list.Element[*waiting[K]]
	name string
	// levels are by priority. In each, owners take turns.
	levels  [levelCount]turns[*entry[K]]
	arrived list.List[*entry[K]] // all of them, first come, first served
	// pops counts the turns of the namespace, of which every sixteenth is that of the oldest key.
	pops int
}

// entry is a queued key, with its places in the turns of its level and among those of its namespace by
// arrival.
type entry[K comparable] struct {
	key K
	Priority
	// in is the namespace that the key waits in.
	in      *waiting[K]
	since   time.Time // when it was queued
	turn    spot[*entry[K]]
	arrival list.Element[*entry[K]]
}

// newStorage returns an empty one. The function returns the namespace of a key.
func newStorage[K comparable](namespace func(K) string) *storage[K] {
	return &storage[K]{namespace: namespace, wanted: map[K]Priority{}, queued: map[K]*entry[K]{},
		byName: map[string]*waiting[K]{}}
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
	e := &entry[K]{key: k, Priority: s.take(k), in: s.waitingIn(s.namespace(k)), since: now}
	e.turn.Value, e.arrival.Value = e, e
	s.queued[k] = e
	e.in.levels[e.Level].push(e.place(), &e.turn)
	e.in.arrived.Append(&e.arrival)
}

// waitingIn returns the queued keys of a namespace, which is the last one to have a turn if it had none.
func (s *storage[K]) waitingIn(namespace string) *waiting[K] {
	w := s.byName[namespace]
	if w == nil {
		if w, s.spare = s.spare, nil; w == nil {
			w = &waiting[K]{}
			w.Value = w
		}
		w.name, w.pops = namespace, 0
		s.byName[namespace] = w
		s.turns.Append(&w.Element)
	}
	return w
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
		e.in.levels[e.Level].remove(&e.turn)
		e.Priority = p
		e.in.levels[e.Level].push(e.place(), &e.turn)
	}
}

// Len counts the queued keys (workqueue.Queue); none while none may be handed out. A worker that gets that answer waits
// until a key is queued. When one may be handed out because a key was released, the worker that has released it comes
// for another one.
func (s *storage[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next := s.next(); next == nil || !s.shares.free(next.name) {
		return 0
	}
	return len(s.queued)
}

// next returns the namespace whose turn it is, which is none that has its half while others wait; nil if no key is
// queued.
func (s *storage[K]) next() *waiting[K] {
	next := s.turns.FirstWhere(func(w *waiting[K]) bool { return s.shares.modest(w.name) })
	if next == nil {
		return nil
	}
	return next.Value
}

// limit says how many keys are processed at a time, zero for any number, and returns how many that is at most: see
// [shares].
func (s *storage[K]) limit(keys int) (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.limit = keys
	return s.shares.most()
}

// release is called when a key that was handed out has been processed.
func (s *storage[K]) release(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.release(s.namespace(k))
}

// waiting counts the queued keys, and reports since when there have been some.
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
	for _, w := range s.byName {
		longest = max(longest, now.Sub(w.arrived.First().Value.since))
	}
	return longest
}

// snapshot returns n of the queued keys, or all if there are fewer, in no particular order.
func (s *storage[K]) snapshot(n int) []K {
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
	w := s.next()
	s.turns.Remove(&w.Element)
	s.shares.take(w.name)
	e := w.pop()
	if w.arrived.First() != nil {
		s.turns.Append(&w.Element)
	} else {
		delete(s.byName, w.name)
		s.spare = w
	}
	delete(s.queued, e.key)
	return e.key
}

// pop takes out the key of the namespace whose turn it is.
func (w *waiting[K]) pop() (e *entry[K]) {
	if w.pops++; w.pops%ageingInterval == 0 {
		e = w.arrived.First().Value
		w.levels[e.Level].remove(&e.turn)
	} else {
		e = w.first().pop()
	}
	w.arrived.Remove(&e.arrival)
	return e
}

// first returns the first level that has a key; the last one if none has.
func (w *waiting[K]) first() *turns[*entry[K]] {
	at := 0
	for at < len(w.levels)-1 && w.levels[at].empty() {
		at++
	}
	return &w.levels[at]
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
