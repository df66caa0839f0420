package horizontalpodautoscaler

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/circuit"
)

// answers are those of the metrics APIs in the present period. Autoscalers that ask the same share the request and
// its answer, an error included, so that each is made once in a period.
type answers struct {
	schedule schedule

	// groups keeps API groups that answer nobody from holding up the autoscalers that do not need them. It is not
	// enough that one question has no answer: it may be that of a single tenant.
	groups circuit.Breaker[string]

	mu sync.Mutex
	// all are the answers of the present periods, those included that are still to come.
	all map[question]*answer
	// swept is the period in which answers of earlier ones were last dropped.
	swept int64
}

// question is what was asked, and what of the answer is kept.
type question struct {
	path, query string
	keeps       reflect.Type
}

// answer is what became of a question in one period. Whoever asks first reads; the others wait until done is
// closed.
type answer struct {
	// slot is the period that the answer is of.
	slot  int64
	asked time.Time     // when the autoscaler that has asked began to be evaluated
	done  chan struct{} // closed when value and err are there
	none  bool          // whoever has asked has given up, so that others ask anew
	value any
	err   error
	until time.Time // for which it counts, also in later periods; zero for its own only
}

const (
	// promptAge is how old an answer may be that an autoscaler takes which is evaluated at once. Its own pods may have
	// come, and its metric may have changed, after others have asked in the same period (HPA-8).
	promptAge = time.Second
	// readTimeout is how long a metrics API may take to answer.
	readTimeout = 10 * time.Second
	// unansweredPeriods is after how many periods without any answer an API counts as one that does not answer at all.
	// It is then asked by one autoscaler in a period.
	unansweredPeriods = 2
)

// errUnanswered is said of an API that answers nobody. The errors of others would say what they have asked.
var errUnanswered = errors.New("the metrics API does not answer in time")

// newAnswers returns answers to no questions. An API that answers nobody for some periods is asked by one
// autoscaler at a time.
func newAnswers(r schedule) *answers {
	a := &answers{schedule: r, all: map[question]*answer{}}
	a.groups.Patience = unansweredPeriods * r.Period
	a.groups.Turn = r.Period + r.Period/10 // a little more than a period: it is somebody else's turn then
	return a
}

// get returns what read has returned in this period of the namespace, and calls it if nobody has. A question that had
// no answer in time is not asked again for a period.
func (a *answers) get(ctx context.Context, now time.Time, group, namespace string, q question,
	read func(context.Context) (any, error)) (any, error) {
	slot := a.schedule.slot(now, namespace)
	a.mu.Lock()
	asked := time.Now() // the reconcile may have begun long ago
	a.sweep(slot, asked)
	known := a.all[q]
	if known != nil && (known.slot == slot || asked.Before(known.until)) {
		a.mu.Unlock()
		select {
		case <-known.done:
			if known.none {
				return a.get(ctx, now, group, namespace, q, read)
			}
			return known.value, known.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	end, err := a.groups.Begin(group)
	if err != nil {
		a.mu.Unlock()
		return nil, err
	}
	mine := &answer{slot: slot, asked: now, done: make(chan struct{})}
	a.all[q] = mine
	a.mu.Unlock()
	defer close(mine.done)
	defer end(circuit.ErrUnknown)                                    // if it panics
	mine.err = errors.New("the request has ended without an answer") // should read panic
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	mine.value, mine.err = read(bounded)
	switch {
	case ctx.Err() != nil: // whoever has asked has given up
		end(circuit.ErrUnknown)
		a.mu.Lock()
		defer a.mu.Unlock()
		if mine.none = true; a.all[q] == mine {
			delete(a.all, q)
		}
	case mine.err != nil && bounded.Err() != nil:
		end(errUnanswered)
		a.mu.Lock()
		defer a.mu.Unlock()
		mine.until = time.Now().Add(a.schedule.Period)
	default:
		end(nil)
	}
	return mine.value, mine.err
}

// forget drops an answer that was asked for before a time, unless it is still to come, or was not given in time.
func (a *answers) forget(q question, before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.all[q]
	if known == nil || !known.asked.Before(before) {
		return
	}
	select {
	case <-known.done:
		if known.until.IsZero() {
			delete(a.all, q)
		}
	default:
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
