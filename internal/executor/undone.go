package executor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// An admission webhook, or another writer, may undo what controllers write. The change is an event, so that it would be
// made again at once, without an end. A change is undone if the same one is asked for again and nothing else was asked
// of the object in between. The second one is made at once, as it may be due to a user; each later one waits twice as
// long as the one before it. Meanwhile it is left out, and all else continues. A creation is undone if the object does
// not come back as its owner looks for it; the next one of its owner waits in the same way, and fails meanwhile.
const (
	firstUndone   = time.Second
	longestUndone = queue.MaxBackoff
	// undoneWithin is how soon after a change the same one has to be asked for, so that it counts as undone.
	undoneWithin = 10 * time.Second
)

// subject is what a write is made to: an object, or a subresource of it; of a creation, the owner and the kind.
type subject struct {
	of   types.UID
	what string
}

// written is the last write to a subject.
type written struct {
	sum   uint64 // of what was asked for
	times int    // how often in a row it was undone
	at    time.Time
	until time.Time // when it is made again
	cause string    // of creations
}

// undone knows which writes of a controller were undone. It remembers the others for as long as they may turn out to
// be.
type undone struct {
	mu sync.Mutex
	// since is when last began. What was written before that is in before, and is forgotten with the next
	// turn.
	since        time.Time
	last, before map[subject]written // since then, and in the time before that
	again        map[subject]written // those that were undone
}

// waits returns the last write to a subject, if it is the same and was undone, and for how long it is not made again.
func (u *undone) waits(s subject, sum uint64, now time.Time) (w written, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if w = u.again[s]; w.sum != sum {
		return w, 0
	}
	return w, w.until.Sub(now)
}

// knows reports whether something was written to a subject.
func (u *undone) knows(s subject) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.find(s)
	return ok
}

// find returns the last write to a subject, wherever it is remembered. It is called under the lock.
func (u *undone) find(s subject) (written, bool) {
	for _, all := range []map[subject]written{u.again, u.last, u.before} {
		if w, ok := all[s]; ok {
			return w, true
		}
	}
	return written{}, false
}

// made notes a change. It returns how often in a row the same one was undone.
func (u *undone) made(s subject, sum uint64, now time.Time) written {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	w, ok := u.find(s)
	if !ok || w.sum != sum || now.Sub(w.at) > undoneWithin && w.times == 0 {
		delete(u.again, s)
		w = written{sum: sum, at: now}
		u.last[s] = w
		return w
	}
	return u.count(s, w, now)
}

// failed notes a creation that was undone.
func (u *undone) failed(s subject, cause string, now time.Time) written {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	w := u.again[s]
	w.cause = cause
	return u.count(s, w, now)
}

// count notes that a write was undone once more. It is called under the lock.
func (u *undone) count(s subject, w written, now time.Time) written {
	w.times++
	w.at, w.until = now, now.Add(plan.Doubling(firstUndone, longestUndone, w.times-1))
	delete(u.last, s)
	delete(u.before, s)
	u.again[s] = w
	return w
}

// worked notes that a write has had its effect.
func (u *undone) worked(s subject) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.again, s)
	delete(u.last, s)
	delete(u.before, s)
}

// turn forgets what is too long ago. It is called under the lock.
func (u *undone) turn(now time.Time) {
	if u.last != nil && now.Sub(u.since) < undoneWithin {
		return
	}
	u.before, u.last, u.since = u.last, map[subject]written{}, now
	if u.again == nil {
		u.again = map[subject]written{}
	}
	for s, w := range u.again {
		if now.Sub(w.until) > longestUndone { // it was not asked for again
			delete(u.again, s)
		}
	}
}
