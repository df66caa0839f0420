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

// comparable reports whether something can be read live that tells more than the caches.
func (r *Runner[S]) comparable() bool { return r.Live != nil || r.Owner != nil && !r.Free }

// doubt marks a key whose caches may lack what a former leader wrote.
func (r *Runner[S]) doubt(key plan.Key) {
	if !r.comparable() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stateLocked(key).unsettled = true
}

// drop forgets a state that says nothing, so that memory follows the keys at work and not the keys that exist.
func (r *Runner[S]) drop(key plan.Key, st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !st.unsettled && !st.report.waits() && st.work == nil && st.rests.IsZero() && st.failing == 0 && st.waits == 0 && st.awaited.nothing() {
		delete(r.keys, key)
	}
}

// A key that many objects wake, such as a Deployment of thousands of pods, could be looked at without end while they
// change, and each look costs as much as there are pods. It rests after each for several times as long as the look took.
const (
	restShare   = 8
	restWorth   = 500 * time.Microsecond // a look that was quicker needs no rest
	restLongest = 100 * time.Millisecond
)

// rest notes until when the key rests after a look.
func (r *Runner[S]) rest(st *state) {
	d := cooldown(st.thought)
	st.thought = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	st.rests = time.Time{}
	if d > 0 {
		st.rests = time.Now().Add(d)
	}
}

// cooldown is how long a key rests after a look that took so long.
func cooldown(thought time.Duration) time.Duration {
	if thought < restWorth {
		return 0
	}
	return min(restShare*thought, restLongest)
}

// resting returns how much longer the key rests.
func (r *Runner[S]) resting(st *state, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return st.rests.Sub(now)
}

// forget drops all that is remembered of a key whose object is gone (RS-7); but not that it is unsettled, if it was settled
// when the caches were read: then a namesake has come since.
func (r *Runner[S]) forget(key plan.Key, unsettled bool) {
	r.mu.Lock()
	if st := r.keys[key]; st != nil {
		r.setReportLocked(st, debounced{})
		r.works.leave(st.work)
		r.setFailingLocked(st, 0)
		*st = state{unsettled: st.unsettled && !unsettled}
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

// setReport notes the report that waits, if one does, and returns how many reports of the controller wait.
func (r *Runner[S]) setReport(st *state, d debounced) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setReportLocked(st, d)
	if d.waits() && st.work == nil {
		st.work = r.works.join(st.family, d.since)
	}
	return r.waiting
}

func (r *Runner[S]) setReportLocked(st *state, d debounced) {
	switch {
	case d.waits() && !st.report.waits():
		r.waiting++
	case !d.waits() && st.report.waits():
		r.waiting--
	}
	st.report = d
}

// rested notes that a look found nothing to write and nothing to debounce. Unless more is about to change by itself, what
// was begun is done, or waits for others.
func (r *Runner[S]) rested(st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !st.report.waits() && !st.moving {
		r.works.leave(st.work)
		st.work = nil
	}
}

// setFailing notes how often in a row the key has failed.
func (r *Runner[S]) setFailing(st *state, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setFailingLocked(st, times)
}

func (r *Runner[S]) setFailingLocked(st *state, times int) {
	switch {
	case times > 0 && st.failing == 0:
		r.failing++
	case times == 0 && st.failing > 0:
		r.failing--
	}
	st.failing = times
}

// urgency returns how urgent a key is that something has happened to: work that has begun goes before anything else.
// changed is the object to which it happened; it may be nil.
func (r *Runner[S]) urgency(key plan.Key, at level, changed plan.Object) urgency {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.keys[key]; st != nil && st.work != nil {
		return urgency{begun, st.work.since.UnixNano()}
	}
	if w := r.works[familyOf(key, changed)]; w != nil {
		return urgency{begun, w.since.UnixNano()}
	}
	return urgency{level: at}
}

// later has the key looked at after d, with the urgency that it has now.
func (r *Runner[S]) later(key plan.Key, d time.Duration) {
	if u := r.urgency(key, live, nil); u.level == begun {
		r.levels.want(key, u)
	}
	r.queue.AddAfter(key, d)
}
