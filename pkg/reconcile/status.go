package reconcile

import (
	"time"

	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Status says how a runner does at one moment, for health checks and metrics.
type Status struct {
	Name    string   // of the controller's queue
	Kinds   []string // of the objects that its keys are named after
	Running bool     // its workers have been started

	// Key is the one that a worker has processed for the longest without progress, and Stuck that time. Progress is a
	// request to the API server that has ended, however it ended: a server that hangs is not a worker that is stuck.
	// Stuck is zero if no worker processes a key.
	Key   plan.Key
	Stuck time.Duration

	// Queued counts the keys that wait for a worker. Idle is for how long, while there were some, none has been
	// taken and no worker has made progress.
	Queued int
	Idle   time.Duration
	// LongestWait is how long the key has waited for a worker that has waited longest.
	LongestWait time.Duration

	Failing   int // keys whose last reconcile has failed, and that are in backoff
	Debounced int // reports that wait for a newer one
	Writing   int // requests that write, under way
}

// Statuses returns how the runner does. It is cheap.
func (r *TypedRunner[K, S, D, M]) Statuses() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var a queue.Activity[K]
	if r.queue != nil {
		a = r.queue.Activity()
	}
	s := Status{
		Name: r.Name, Kinds: r.Explained, Running: a.Running, Stuck: a.Stuck,
		Queued: a.Queued, Idle: a.Idle, LongestWait: a.LongestWait, Writing: r.executor.InFlight(),
	}
	if a.Stuck > 0 {
		s.Key = r.KeyName(a.Key)
	}
	s.Debounced, s.Failing = r.keys.Counts()
	return []Status{s}
}
