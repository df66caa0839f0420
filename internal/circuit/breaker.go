package circuit

import (
	"errors"
	"sync"
	"time"
)

// Breaker admits requests to APIs, each of which has a key, such as its group or the kind of its objects. Its fields
// must not be changed once it is used.
type Breaker[K comparable] struct {
	// Slow is how long a request may take before no other one of its key is admitted besides it; zero for any time.
	Slow time.Duration
	// Patience is for how long all requests of a key must have failed before it counts as failing.
	Patience time.Duration
	// Pause is how long after a failure no request of a failing key is admitted.
	Pause time.Duration
	// Turn is how long no other request of a failing key is admitted after one was; zero for no time.
	Turn time.Duration

	mu sync.Mutex
	// keys are those with requests under way, or that fail. Others take no room.
	keys map[K]*requests
}

// requests are what is known of the requests of a key.
type requests struct {
	running  int
	since    time.Time // when the oldest of those running began; later, if it has ended meanwhile
	answered time.Time // when the last request ended that has not failed
	failing  time.Time // when the first request began that has failed since then
	next     time.Time // when another one is admitted, while the key is failing
	err      error     // of the last request that has failed; nil if none has since one was answered
}

// ErrBusy says that a request must wait for another one.
var ErrBusy = errors.New("another request has not been answered")

// ErrUnknown ends a request of which nothing can be concluded, such as one that was given up.
var ErrUnknown = errors.New("the request was given up")

// Begin admits a request. Otherwise the error is [ErrBusy], or how the last request has failed. The caller calls end
// when the request has ended: with an error if the API has failed, and with nil if it has answered, if only by an
// error of its own. Only the first call counts, so that a deferred one with [ErrUnknown] ends a request that panics.
func (b *Breaker[K]) Begin(key K) (end func(failure error), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[K]*requests{}
	}
	r := b.keys[key]
	if r == nil {
		r = &requests{}
		b.keys[key] = r
	}
	now := time.Now()
	switch {
	case b.Slow > 0 && r.running > 0 && now.Sub(r.since) > b.Slow:
		return nil, ErrBusy
	case r.err != nil && now.Sub(r.failing) >= b.Patience:
		if now.Before(r.next) {
			return nil, r.err
		}
		r.next = now.Add(b.Turn)
	}
	if r.running == 0 {
		r.since = now
	}
	r.running++
	ended := false
	return func(failure error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !ended {
			ended = true
			b.end(key, r, now, failure)
		}
	}, nil
}

// end is called under the lock.
func (b *Breaker[K]) end(key K, r *requests, began time.Time, failure error) {
	now := time.Now()
	r.running--
	r.since = now
	switch {
	case errors.Is(failure, ErrUnknown):
	case failure == nil:
		r.answered, r.err = now, nil
	default:
		if r.err == nil {
			r.failing = began
			if began.Before(r.answered) {
				r.failing = r.answered
			}
		}
		if r.err = failure; b.Pause > 0 {
			r.next = now.Add(b.Pause)
		}
	}
	if r.running == 0 && r.err == nil {
		delete(b.keys, key)
	}
}
