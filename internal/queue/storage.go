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
	hung   map[K]bool  // keys without namespace whose last try made no progress for a while
	tries  map[K]try   // of the keys that are being processed
}

// try is what is known of a key that is being processed.
type try struct {
	in   string // the namespace that it counts in
	hung bool   // it has made no progress for a while
}

// hanging stands for the namespace of keys that have none, and whose last try hung. So they take turns with the other
// keys without namespace, and have no more than half of the workers and slots while these wait.
const hanging = "keys that hang"

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
		byName: map[string]*waiting[K]{}, hung: map[K]bool{}, tries: map[K]try{}}
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
	e := &entry[K]{key: k, Priority: s.take(k), in: s.waitingIn(s.turnsOf(k)), since: now}
	e.turn.Value, e.arrival.Value = e, e
	s.queued[k] = e
	e.in.levels[e.Level].push(e.place(), &e.turn)
	e.in.arrived.Append(&e.arrival)
}

// turnsOf returns the namespace whose turns are those of a key.
func (s *storage[K]) turnsOf(k K) string {
	if s.hung[k] {
		return hanging
	}
	return s.namespace(k)
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
	last := s.tries[k]
	delete(s.tries, k)
	s.shares.release(last.in)
	if !last.hung {
		delete(s.hung, k)
	}
}

// hangs notes that a key without namespace, which is being processed, makes no progress. It reports whether that is to
// end, because another key waits for a worker. One that hung before has its share of the workers, and all the time that
// it needs.
func (s *storage[K]) hangs(k K) (giveUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.tries[k]
	if !ok {
		return false
	}
	now.hung = true
	s.tries[k], s.hung[k] = now, true
	if now.in == hanging {
		return false
	}
	other := s.turns.FirstWhere(func(w *waiting[K]) bool { return w.name != hanging })
	return other != nil && other.Value.name != hanging && !s.shares.free(other.Value.name)
}

// inTurnsOf returns the namespace that a key which is being processed counts in.
func (s *storage[K]) inTurnsOf(k K) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries[k].in
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
	s.tries[e.key] = try{in: w.name}
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
