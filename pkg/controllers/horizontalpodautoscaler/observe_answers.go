package horizontalpodautoscaler

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"
)

// answers are those of the metrics APIs in the present period. Autoscalers that ask the same share the request and its answer, an error
// included, so that each is made once in a period.
type answers struct {
	schedule schedule

	mu     sync.Mutex
	all    map[question]*answer
	swept  int64
	groups map[string]*health // by API group; there are three
}

// question is what was asked, and what of the answer is kept.
type question struct {
	path, query string
	keeps       reflect.Type
}

type answer struct {
	slot  int64
	done  chan struct{} // closed when value and err are there
	value any
	err   error
	until time.Time // for which it counts, also in later periods; zero for its own only
}

// health says whether an API group answers in time. One that has answered nobody for more than two periods is asked by one autoscaler in a
// period, so that it does not hold up those that do not need it. It is not enough that one question has no answer: it may be
// that of a single tenant.
type health struct {
	answered   time.Time // when it has last answered in time, if only with an error
	unanswered time.Time // since when it has not, and was asked; zero if it was well when it was last asked
	next       time.Time // when it is asked again, if it answers nobody
}

const (
	// readTimeout is how long a metrics API may take to answer.
	readTimeout = 10 * time.Second
	// patience is after how many periods without any answer an API counts as one that does not answer at all.
	patience = 2
)

// errUnanswered is said of an API that answers nobody. The errors of others would say what they have asked.
var errUnanswered = errors.New("the metrics API does not answer in time")

func newAnswers(r schedule) *answers {
	return &answers{schedule: r, all: map[question]*answer{}, groups: map[string]*health{}}
}

// get returns what read has returned in this period of the namespace, and calls it if nobody has. A question that had no answer in time is not
// asked again for a period.
func (a *answers) get(ctx context.Context, now time.Time, group, namespace string, q question, read func(context.Context) (any, error)) (any, error) {
	slot := a.schedule.slot(now, namespace)
	a.mu.Lock()
	asked := time.Now() // the reconcile may have begun long ago
	a.sweep(slot, asked)
	known := a.all[q]
	if known != nil && (known.slot == slot || asked.Before(known.until)) {
		a.mu.Unlock()
		select {
		case <-known.done:
			return known.value, known.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !a.admits(group, asked) {
		a.mu.Unlock()
		return nil, errUnanswered
	}
	mine := &answer{slot: slot, done: make(chan struct{})}
	a.all[q] = mine
	a.mu.Unlock()
	defer close(mine.done)
	mine.err = errors.New("the request has ended without an answer") // should read panic
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	mine.value, mine.err = read(bounded)
	if ctx.Err() == nil { // a request that was given up by who had asked says nothing
		a.note(group, mine, asked, mine.err != nil && bounded.Err() != nil)
	}
	return mine.value, mine.err
}

// admits reports whether a group may be asked, and notes that it is.
func (a *answers) admits(group string, now time.Time) bool {
	h := a.groups[group]
	switch {
	case h == nil:
		a.groups[group] = &health{}
		return true
	case h.unanswered.IsZero() || now.Sub(h.unanswered) <= patience*a.schedule.Period:
		return true
	case now.Before(h.next):
		return false
	}
	// A little more than a period: it is somebody else's turn then.
	h.next = now.Add(a.schedule.Period + a.schedule.Period/10)
	return true
}

// note notes whether a group has answered a question in time.
func (a *answers) note(group string, mine *answer, asked time.Time, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, now := a.groups[group], time.Now()
	if !late {
		h.answered, h.unanswered = now, time.Time{}
		return
	}
	mine.until = now.Add(a.schedule.Period)
	if h.unanswered.IsZero() {
		h.unanswered = asked
		if asked.Before(h.answered) {
			h.unanswered = h.answered
		}
	}
}

// sweep drops the answers of earlier periods. The periods of different namespaces begin at different times.
func (a *answers) sweep(slot int64, now time.Time) {
	if slot <= a.swept {
		return
	}
	a.swept = slot
	for q, known := range a.all {
		if known.slot < slot-1 && !now.Before(known.until) {
			delete(a.all, q)
		}
	}
}
