package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// level orders the keys of a queue: lower goes first.
type level int

const (
	begun      level = iota // work on the key has begun and its report is held back: finish before starting anew
	live                    // something changed
	background              // the initial list, and resyncs
	levelCount
)

// ageing: every so many pops the key that has waited longest goes first, whatever its level, so nothing starves.
const ageing = 4

// levels is the storage of a work queue that hands out keys by level, first come first served within one.
type levels struct {
	mu     sync.Mutex
	wanted map[plan.Key]level // for the key's next Push
	queued map[plan.Key]ticket
	fifo   [levelCount][]ticket // may hold outdated tickets of raised keys
	next   uint64
	pops   int
	filled time.Time // when a key was last put into it while it was empty
}

type ticket struct {
	key   plan.Key
	level level
	order uint64 // of arrival in the queue
}

func newLevels() *levels {
	return &levels{wanted: map[plan.Key]level{}, queued: map[plan.Key]ticket{}}
}

// want says at which level the key is to be queued when it is added next. The most urgent wish wins.
func (l *levels) want(k plan.Key, at level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.wanted[k]; !ok || at < before {
		l.wanted[k] = at
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
	l.put(ticket{k, l.take(k), l.next})
}

// Touch is called for a key that is queued already and added again (workqueue.Queue).
func (l *levels) Touch(k plan.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.queued[k]; ok {
		if at := l.take(k); at < t.level {
			l.put(ticket{k, at, t.order})
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
	l.pops++
	chosen := levelCount
	for at := range l.fifo {
		l.dropOutdated(level(at))
		if len(l.fifo[at]) == 0 {
			continue
		}
		if chosen == levelCount || l.pops%ageing == 0 && l.fifo[at][0].order < l.fifo[chosen][0].order {
			chosen = level(at)
		}
	}
	t := l.fifo[chosen][0]
	l.fifo[chosen] = l.fifo[chosen][1:]
	delete(l.queued, t.key)
	return t.key
}

func (l *levels) put(t ticket) {
	l.queued[t.key] = t
	l.fifo[t.level] = append(l.fifo[t.level], t)
}

func (l *levels) take(k plan.Key) level {
	at, ok := l.wanted[k]
	if !ok {
		return live
	}
	delete(l.wanted, k)
	return at
}

func (l *levels) dropOutdated(at level) {
	current := slices.IndexFunc(l.fifo[at], func(t ticket) bool { return l.queued[t.key] == t })
	if current < 0 {
		current = len(l.fifo[at])
	}
	l.fifo[at] = l.fifo[at][current:]
}
