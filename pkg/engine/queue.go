package engine

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// level orders the keys of a queue: lower goes first.
type level int

const (
	begun      level = iota // work on the key has begun: finish before starting anew, what began first first
	live                    // something changed
	background              // the initial list, and resyncs
	levelCount
)

// ageing: every so many pops the key that has waited longest goes first, whatever its level, so nothing starves.
const ageing = 16

// urgency says when a key's turn is to come.
type urgency struct {
	level level
	since int64 // begun: when work on the key began, in nanoseconds of Unix time; else 0
}

// before reports whether a key goes before another one that has waited as long.
func (u urgency) before(other urgency) bool {
	return u.level < other.level || u.level == other.level && u.since < other.since
}

// levels is the storage of a work queue that hands out keys by urgency, first come first served among equals.
type levels struct {
	mu      sync.Mutex
	wanted  map[plan.Key]urgency // for the key's next Push
	queued  map[plan.Key]ticket
	urgent  tickets  // the most urgent on top; may hold outdated tickets of keys that were raised or popped
	arrived []ticket // by arrival; likewise
	next    uint64
	pops    int
	filled  time.Time // when a key was last put into it while it was empty
}

type ticket struct {
	key plan.Key
	urgency
	order uint64 // of arrival in the queue
}

func newLevels() *levels {
	return &levels{wanted: map[plan.Key]urgency{}, queued: map[plan.Key]ticket{}}
}

// want says how urgent the key is to be when it is added next. The most urgent wish wins.
func (l *levels) want(k plan.Key, u urgency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.wanted[k]; !ok || u.before(known) {
		l.wanted[k] = u
	}
}

// Push queues a key that is not queued (workqueue.Queue).
func (l *levels) Push(k plan.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queued) == 0 {
		l.filled = time.Now()
	}
	l.next++
	t := ticket{k, l.take(k), l.next}
	l.put(t)
	l.arrived = append(l.arrived, t)
}

// Touch is called for a key that is queued already and added again (workqueue.Queue).
func (l *levels) Touch(k plan.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.queued[k]; ok {
		if u := l.take(k); u.before(t.urgency) {
			l.put(ticket{k, u, t.order})
		}
	}
}

// Len counts the queued keys (workqueue.Queue).
func (l *levels) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued)
}

// waiting counts the queued keys, and tells since when there have been some.
func (l *levels) waiting() (n int, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queued), l.filled
}

// Pop takes out the key whose turn it is (workqueue.Queue). It is called only when Len is not zero.
func (l *levels) Pop() plan.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.queued[l.arrived[0].key].order != l.arrived[0].order {
		l.arrived = l.arrived[1:]
	}
	for l.outdated(l.urgent[0]) {
		heap.Pop(&l.urgent)
	}
	l.pops++
	chosen := l.urgent[0].key
	if l.pops%ageing == 0 {
		chosen = l.arrived[0].key
	}
	delete(l.queued, chosen)
	return chosen
}

func (l *levels) put(t ticket) {
	l.queued[t.key] = t
	heap.Push(&l.urgent, t)
	if len(l.urgent) > 2*len(l.queued)+100 { // as many outdated ones as that are too many
		l.urgent = slices.DeleteFunc(l.urgent, l.outdated)
		heap.Init(&l.urgent)
	}
}

// outdated reports whether the ticket's key has been popped or raised since.
func (l *levels) outdated(t ticket) bool { return l.queued[t.key] != t }

func (l *levels) take(k plan.Key) urgency {
	u, ok := l.wanted[k]
	if !ok {
		return urgency{level: live}
	}
	delete(l.wanted, k)
	return u
}

// tickets are a heap (container/heap) with the most urgent on top, and among equals the one that came first.
type tickets []ticket

func (h tickets) Len() int      { return len(h) }
func (h tickets) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *tickets) Push(t any)   { *h = append(*h, t.(ticket)) }

func (h tickets) Less(i, j int) bool {
	if h[i].urgency != h[j].urgency {
		return h[i].before(h[j].urgency)
	}
	return h[i].order < h[j].order
}

func (h *tickets) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}
