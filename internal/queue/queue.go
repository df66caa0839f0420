package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Level is the first criterion of a [Priority]. A lower level comes first.
type Level int

// The levels of a priority.
const (
	InProgress Level = iota // work on the key is in progress: finish it before new work starts
	Changed                 // an object has changed
	Background              // the initial list, and resyncs
	levelCount
)

// Priority says when it is a key's turn among those of its namespace; namespaces take turns. The zero Priority comes
// before any other.
type Priority struct {
	Level Level
	// InProgress only: when the work began, in nanoseconds of Unix time; in a namespace, earlier work comes first
	Since int64
	Owner types.UID // other levels: in a namespace, owners take turns, and keys without one do so together
}

// before reports whether a key is to rise from the other priority to this one.
func (p Priority) before(other Priority) bool {
	return p.Level < other.Level || p.Level == other.Level && p.Since < other.Since
}

// place returns where a key of that priority waits within its level of its namespace.
func (p Priority) place() place {
	if p.Level == InProgress {
		return place{since: p.Since}
	}
	return place{owner: p.Owner}
}

// Queue is a work queue of which the keys take turns.
type Queue[K comparable] struct {
	workqueue.TypedDelayingInterface[K]
	storage *storage[K]
}

// New returns an empty queue of keys, of which a function returns the namespace. The name is that of the queue's
// metrics; queues may share one.
func New[K comparable](name string, namespace func(K) string) *Queue[K] {
	s := newStorage(namespace)
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: s})
	return &Queue[K]{storage: s, TypedDelayingInterface: workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: inner})}
}

// Limit says how many keys are processed at a time. It returns how many that is at most while one namespace has
// more than half of them, and others wait: so many workers are needed.
func (q *Queue[K]) Limit(keys int) (workers int) { return q.storage.limit(keys) }

// Done is called when a key has been processed. Whoever calls it then calls Get, unless the queue shuts down.
func (q *Queue[K]) Done(key K) {
	q.storage.release(key)
	q.TypedDelayingInterface.Done(key)
}

// ShutDown ends the queue. What is left in it is handed out to whoever still calls Get.
func (q *Queue[K]) ShutDown() {
	q.storage.limit(0)
	q.TypedDelayingInterface.ShutDown()
}

// Prioritize says which priority the key has when it is next added, or has from now on if it is queued. A key never
// loses priority while it waits. Without a wish its level is [Changed].
func (q *Queue[K]) Prioritize(key K, p Priority) { q.storage.prioritize(key, p) }

// AddWithPriority adds the key, or raises its priority if it is queued already.
func (q *Queue[K]) AddWithPriority(key K, p Priority) {
	q.storage.prioritize(key, p)
	q.Add(key)
}

// Len counts the keys that wait for a worker, also those that may not be handed out now.
func (q *Queue[K]) Len() int {
	n, _ := q.storage.waiting()
	return n
}

// Waiting counts the keys that wait for a worker, and reports since when there have been some.
func (q *Queue[K]) Waiting() (n int, since time.Time) { return q.storage.waiting() }

// LongestWait returns how long the key has waited for a worker that has waited longest; zero if none waits. It
// looks at each namespace.
func (q *Queue[K]) LongestWait() time.Duration { return q.storage.longestWait() }

// Snapshot returns n of the keys that wait for a worker, or all if there are fewer, in no particular order.
func (q *Queue[K]) Snapshot(n int) []K { return q.storage.snapshot(n) }
