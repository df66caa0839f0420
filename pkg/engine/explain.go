package engine

import (
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Record tells what a controller last made of a key, for people who ask why nothing is happening.
type Record struct {
	Time    time.Time     // of the last look
	Why     string        // what was decided and what is waited for
	Wrote   int           // writes tried in that look
	Error   string        // what went wrong; empty if nothing did
	Retries int           // failures in a row
	Next    time.Duration // until the next look by the clock, from Time on; zero: only an event leads to one
	Waiting string        // the kind whose cache does not show our own writes yet; empty if none
}

// Explain keeps the last record of every key that exists.
type Explain struct {
	mu      sync.Mutex
	records map[string]map[plan.Key]Record // by controller
}

// NewExplain returns an empty one.
func NewExplain() *Explain { return &Explain{records: map[string]map[plan.Key]Record{}} }

// Get returns the last record of a key; ok is false if the controller has not looked at it, or it is gone.
func (e *Explain) Get(controller string, key plan.Key) (r Record, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok = e.records[controller][key]
	return r, ok
}

func (e *Explain) put(controller string, key plan.Key, r Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.records[controller] == nil {
		e.records[controller] = map[plan.Key]Record{}
	}
	e.records[controller][key] = r
}

func (e *Explain) forget(controller string, key plan.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records[controller], key)
}
