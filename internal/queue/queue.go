package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Level is the first criterion of a [Priority]. A lower level goes first.
type Level int

// The levels of a priority.
const (
	InProgress Level = iota // work on the key is in progress: finish it before new work starts
	Changed                 // an object has changed
	Background              // the initial list, and resyncs
	levelCount
)

// Priority says when it is a key's turn. The zero Priority goes before any other.
type Priority struct {
	Level Level
	Since int64 // InProgress only: when the work began, in nanoseconds of Unix time; earlier work goes first
}

// before reports whether a key goes before another one that was added at the same time.
func (p Priority) before(other Priority) bool {
	return p.Level < other.Level || p.Level == other.Level && p.Since < other.Since
}

// Queue is the work queue of one controller.
type Queue struct {
	workqueue.TypedDelayingInterface[plan.Key]
	storage *storage
}

// New returns an empty queue. The name is that of its metrics; queues may share one.
func New(name string) *Queue {
	s := newStorage()
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[plan.Key]{Name: name, Queue: s})
	return &Queue{storage: s, TypedDelayingInterface: workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[plan.Key]{Name: name, Queue: inner})}
}

// Prioritize says which priority the key has when it is next added, or has from now on if it is queued. A key never loses
// priority while it waits. Without a wish its level is [Changed].
func (q *Queue) Prioritize(key plan.Key, p Priority) { q.storage.prioritize(key, p) }

// AddWithPriority adds the key, or raises its priority if it is queued already.
func (q *Queue) AddWithPriority(key plan.Key, p Priority) {
	q.storage.prioritize(key, p)
	q.Add(key)
}

// Waiting counts the keys that wait for a worker, and tells since when there have been some.
func (q *Queue) Waiting() (n int, since time.Time) { return q.storage.waiting() }

// Some returns n of the keys that wait for a worker, or all if there are fewer, in no particular order.
func (q *Queue) Some(n int) []plan.Key { return q.storage.some(n) }
