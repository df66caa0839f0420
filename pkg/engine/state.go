package engine

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// state returns what is remembered of the key.
func (r *Runner[S]) state(key plan.Key) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateLocked(key)
}

func (r *Runner[S]) stateLocked(key plan.Key) *state {
	st := r.keys[key]
	if st == nil {
		st = &state{}
		r.keys[key] = st
	}
	return st
}

// doubt marks a key whose caches may lack what a former leader wrote.
func (r *Runner[S]) doubt(key plan.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stateLocked(key).unsettled = true
}

// drop forgets a state that says nothing, so that memory follows the keys at work and not the keys that exist.
func (r *Runner[S]) drop(key plan.Key, st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !st.unsettled && !st.begun && st.failing == 0 && st.waits == 0 && st.awaited.nothing() {
		delete(r.keys, key)
	}
}

// forget drops all that is remembered of a key whose object is gone (RS-7).
func (r *Runner[S]) forget(key plan.Key) {
	r.mu.Lock()
	if st := r.keys[key]; st != nil {
		r.setBegun(st, false)
		*st = state{}
	}
	r.mu.Unlock()
	r.shared.Explain.forget(r.Name, key)
}

func (r *Runner[S]) isUnsettled(st *state) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return st.unsettled
}

func (r *Runner[S]) setUnsettled(st *state, to bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.unsettled = to
}

// setHeld notes since when a report is held back; zero for none.
func (r *Runner[S]) setHeld(st *state, since time.Time) {
	st.held = since
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setBegun(st, !since.IsZero())
}

func (r *Runner[S]) setBegun(st *state, to bool) {
	switch {
	case to && !st.begun:
		r.held++
	case !to && st.begun:
		r.held--
	}
	st.begun = to
}

// heldNow counts the reports that are held back.
func (r *Runner[S]) heldNow() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// urgency returns the level for a key that something has happened to: work that has begun goes before anything else.
func (r *Runner[S]) urgency(key plan.Key, at level) level {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.keys[key]; st != nil && st.begun {
		return begun
	}
	return at
}
