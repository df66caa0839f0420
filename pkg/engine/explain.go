package engine

import (
	"cmp"
	"slices"
	"strings"
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

// Troubled returns the records of a controller's keys that have failed, or wait for a cache, in the order of the keys, at
// most so many, and how many there are.
func (e *Explain) Troubled(controller string, most int) (found []Told, total int) {
	e.mu.Lock()
	for key, r := range e.records[controller] {
		if r.troubled() {
			found = append(found, Told{key, r})
		}
	}
	e.mu.Unlock()
	slices.SortFunc(found, func(a, b Told) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	return found[:min(most, len(found))], len(found)
}

// Told is a key with what is told of it.
type Told struct {
	Key plan.Key
	Record
}

func (r Record) troubled() bool { return r.Error != "" || r.Waiting != "" }

// Put keeps a record. One that says nothing is kept only in place of one that tells of trouble.
func (e *Explain) Put(controller string, key plan.Key, r Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Why == "" && !r.troubled() && !e.records[controller][key].troubled() {
		return
	}
	if e.records[controller] == nil {
		e.records[controller] = map[plan.Key]Record{}
	}
	e.records[controller][key] = r
}

// clear forgets a controller's records: those of an earlier term say nothing about this one.
func (e *Explain) clear(controller string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records, controller)
}

func (e *Explain) forget(controller string, key plan.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.records[controller], key)
}
