package queue

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ageingInterval: every so many turns the key that has waited longest goes first, whatever its priority, so that none starves.
const ageingInterval = 16

// storage is the storage of a work queue (workqueue.Queue). It hands out keys by priority, first come first served among
// equals.
type storage struct {
	mu         sync.Mutex
	wanted     map[plan.Key]Priority // of keys, for when they are next added
	queued     map[plan.Key]entry
	byPriority entries // a heap; may hold outdated entries, of keys that were raised or popped
	byArrival  []entry // in order of arrival; likewise
	next       uint64
	pops       int
	filled     time.Time // when a key was last put into it while it was empty
}

type entry struct {
	key plan.Key
	Priority
	order uint64 // of arrival in the queue
}

func newStorage() *storage {
	return &storage{wanted: map[plan.Key]Priority{}, queued: map[plan.Key]entry{}}
}

// prioritize says which priority the key has when it is next added. The highest wish wins.
func (s *storage) prioritize(k plan.Key, p Priority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.wanted[k]; !ok || p.before(known) {
		s.wanted[k] = p
	}
}

// Push queues a key that is not queued (workqueue.Queue).
func (s *storage) Push(k plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queued) == 0 {
		s.filled = time.Now()
	}
	s.next++
	e := entry{k, s.take(k), s.next}
	s.put(e)
	s.byArrival = append(s.byArrival, e)
}

// Touch is called for a key that is queued already and added again (workqueue.Queue).
func (s *storage) Touch(k plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.queued[k]; ok {
		if p := s.take(k); p.before(e.Priority) {
			s.put(entry{k, p, e.order})
		}
	}
}

// Len counts the queued keys (workqueue.Queue).
func (s *storage) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// waiting counts the queued keys, and tells since when there have been some.
func (s *storage) waiting() (n int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued), s.filled
}

// some returns n of the queued keys, or all if there are fewer, in no particular order.
func (s *storage) some(n int) []plan.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]plan.Key, 0, min(n, len(s.queued)))
	for key := range s.queued {
		if len(keys) == n {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// Pop takes out the key whose turn it is (workqueue.Queue). It is called only when Len is not zero.
func (s *storage) Pop() plan.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued[s.byArrival[0].key].order != s.byArrival[0].order {
		s.byArrival = s.byArrival[1:]
	}
	for s.outdated(s.byPriority[0]) {
		heap.Pop(&s.byPriority)
	}
	s.pops++
	chosen := s.byPriority[0].key
	if s.pops%ageingInterval == 0 {
		chosen = s.byArrival[0].key
	}
	delete(s.queued, chosen)
	return chosen
}

func (s *storage) put(e entry) {
	s.queued[e.key] = e
	heap.Push(&s.byPriority, e)
	if len(s.byPriority) > 2*len(s.queued)+100 { // most of them are outdated
		s.byPriority = slices.DeleteFunc(s.byPriority, s.outdated)
		heap.Init(&s.byPriority)
	}
}

// outdated reports whether the entry's key has been popped or raised since.
func (s *storage) outdated(e entry) bool { return s.queued[e.key] != e }

// take returns the priority that was wished for the key, and forgets the wish.
func (s *storage) take(k plan.Key) Priority {
	p, ok := s.wanted[k]
	if !ok {
		return Priority{Level: Changed}
	}
	delete(s.wanted, k)
	return p
}

// entries are a heap (container/heap): the highest priority on top, and among equals the one that came first.
type entries []entry

func (h entries) Len() int      { return len(h) }
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(t any)   { *h = append(*h, t.(entry)) }

func (h entries) Less(i, j int) bool {
	if h[i].Priority != h[j].Priority {
		return h[i].before(h[j].Priority)
	}
	return h[i].order < h[j].order
}

func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
