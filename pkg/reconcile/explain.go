package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Record tells what a controller last decided about a key, for people who ask why nothing is happening.
type Record struct {
	Time    time.Time     // of the last reconcile
	Why     string        // what was decided and what is waited for
	Wrote   int           // writes tried in that reconcile
	Error   string        // what went wrong; empty if nothing did
	Retries int           // failures in a row
	Next    time.Duration // until the next reconcile by the clock, from Time on; zero: only an event leads to one
	Waiting string        // the kind whose cache does not show our own writes yet; empty if none
}

func (r Record) failing() bool { return r.Error != "" || r.Waiting != "" }

// Entry is a key with its record.
type Entry struct {
	Key plan.Key
	Record
}

// Explain keeps the last record of every key that exists. Its methods are safe for concurrent use.
type Explain struct {
	mu      sync.Mutex
	records map[string]map[plan.Key]Record // by controller
}

// NewExplain returns an empty one.
func NewExplain() *Explain { return &Explain{records: map[string]map[plan.Key]Record{}} }

// Get returns the last record of a key; ok is false if the controller has not reconciled it, or it is gone.
func (e *Explain) Get(controller string, key plan.Key) (r Record, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok = e.records[controller][key]
	return r, ok
}

// Failing returns the records of a controller's keys that have failed, or wait for a cache, in the order of the keys, at
// most so many, and how many there are.
func (e *Explain) Failing(controller string, most int) (found []Entry, total int) {
	e.mu.Lock()
	for key, r := range e.records[controller] {
		if r.failing() {
			found = append(found, Entry{key, r})
		}
	}
	e.mu.Unlock()
	slices.SortFunc(found, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	return found[:min(most, len(found))], len(found)
}

// Put keeps a record. One that says nothing is kept only in place of one that tells of a failure.
func (e *Explain) Put(controller string, key plan.Key, r Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Why == "" && !r.failing() && !e.records[controller][key].failing() {
		return
	}
	if e.records[controller] == nil {
		e.records[controller] = map[plan.Key]Record{}
	}
	e.records[controller][key] = r
}

// Clear forgets a controller's records: those of an earlier term say nothing about this one.
func (e *Explain) Clear(controller string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records, controller)
}

// Forget forgets the record of a key that is gone.
func (e *Explain) Forget(controller string, key plan.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records[controller], key)
}
