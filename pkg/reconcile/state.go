package reconcile

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// keyState is what a runner remembers of a key between two reconciles. It is a small state machine. A key is
//
//	verified    the caches are known to show what others have written for it, or
//	unverified  they may lack writes of a previous leader, or own ones that were not answered: the caches are compared
//	            with the server before the next write
//
// and, whichever of these it is, a reconcile begins only when the key is not
//
//	cooling down   its last reconcile was expensive
//	stale          the caches do not show yet what was written for it (the barrier)
//
// Its events are the methods of [keyStates]: an event handler calls unverify and record; the worker that has the key calls
// admit. If the key is cooling down, that is all. Otherwise any of observed, isUnverified, verified, unanswered, commit,
// setReport and forget follow, then succeeded or failed, or neither if the key waits for a cache, and last release.
type keyState[M any] struct {
	barrier freshness.Barrier // touched only by the worker that has the key
	memory  *M                // what Observe has returned to be remembered; nil for nothing

	unverified  bool
	stale       int       // attempts in a row that found the barrier closed
	failures    int       // in a row
	cooldown    time.Time // the key is not reconciled before
	report      debounced // a report that waits for a newer one
	progressing bool      // more is about to change by itself, said the last report
	failure     error     // of the last reconcile
	owner       types.UID // of the controlling owner of the key's object: keys with the same one are a work group
	group       *queue.Group
	changes     []Change // of watches that record them, since the memory was last committed
}

// idle reports whether the state says nothing.
func (s *keyState[M]) idle() bool {
	return !s.unverified && !s.report.waiting() && s.group == nil && s.cooldown.IsZero() && s.failures == 0 && s.stale == 0 &&
		s.memory == nil && len(s.changes) == 0 && s.barrier.Empty()
}

// keyStates are the states of a controller's keys. It is safe for concurrent use. Its size follows the keys of which there
// is something to remember, not the keys that exist.
type keyStates[M any] struct {
	mu        sync.Mutex
	all       map[plan.Key]*keyState[M]
	groups    queue.Groups
	debounced int // keys with a report that waits
	failing   int // keys that have failed
}

func newKeyStates[M any]() *keyStates[M] {
	return &keyStates[M]{all: map[plan.Key]*keyState[M]{}, groups: queue.Groups{}}
}

func (k *keyStates[M]) get(key plan.Key) *keyState[M] {
	s := k.all[key]
	if s == nil {
		s = &keyState[M]{}
		k.all[key] = s
	}
	return s
}

func (k *keyStates[M]) counts() (debounced, failing int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.debounced, k.failing
}

// unverify marks a key whose caches may lack what a previous leader wrote.
func (k *keyStates[M]) unverify(key plan.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.get(key).unverified = true
}

// record keeps a change for the key's next Observe.
func (k *keyStates[M]) record(key plan.Key, c Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.get(key)
	s.changes = append(s.changes, c)
}

// admission says whether a reconcile of a key may begin.
type admission struct {
	wait    time.Duration           // zero: it may; else when to try again
	stale   bool                    // the barrier is closed; otherwise, to wait means that the key is cooling down
	missing schema.GroupVersionKind // of a stale key: a kind whose caches lack something
}

// verifyAfter is how many attempts in a row may find the barrier closed (about ten seconds of timers; events count, too) before
// absences that are waited for are given up and listed live again. Versions and own deletions are waited for without end.
const verifyAfter = 15

// admit decides whether a reconcile of the key may begin.
func (k *keyStates[M]) admit(key plan.Key, caches freshness.Caches, now time.Time) (*keyState[M], admission) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.get(key)
	if wait := s.cooldown.Sub(now); wait > 0 {
		return s, admission{wait: wait}
	}
	state := s.barrier.Check(caches)
	if state.Unverified {
		s.unverified = true
	}
	if state.Open {
		s.stale = 0
		return s, admission{}
	}
	s.stale++
	if s.stale%verifyAfter == 0 && s.barrier.DropAbsences() {
		s.unverified = true
	}
	return s, admission{wait: plan.Doubling(10*time.Millisecond, time.Second, s.stale), stale: true, missing: state.Missing}
}

// isUnverified reports whether the caches have to be compared with the server before the next write.
func (k *keyStates[M]) isUnverified(s *keyState[M]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.unverified
}

// verified notes that the caches were compared with the server; what they lack is behind the barrier.
func (k *keyStates[M]) verified(s *keyState[M]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.unverified = false
}

// unanswered notes a write of which it is not known what became of it.
func (k *keyStates[M]) unanswered(s *keyState[M]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.unverified = true
}

// observed is what is remembered of a key for its next Observe.
type observed[M any] struct {
	memory  *M
	changes []Change
	failure error
}

// observed returns what the key's next Observe gets.
func (k *keyStates[M]) observed(s *keyState[M]) observed[M] {
	k.mu.Lock()
	defer k.mu.Unlock()
	return observed[M]{s.memory, slices.Clip(s.changes), s.failure}
}

// peek returns the same for a key that somebody asks about.
func (k *keyStates[M]) peek(key plan.Key) (o observed[M]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[key]; s != nil {
		o = observed[M]{s.memory, slices.Clip(s.changes), s.failure}
	}
	return o
}

// commit replaces the key's memory by what an Observe returned that was given so many changes.
func (k *keyStates[M]) commit(s *keyState[M], memory *M, told int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.memory = memory
	if s.changes = s.changes[told:]; len(s.changes) == 0 {
		s.changes = nil
	}
}

// setReport notes the report that waits, if one does. Work on the key is in progress from then on.
func (k *keyStates[M]) setReport(s *keyState[M], d debounced) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReportLocked(s, d)
	if d.waiting() && s.group == nil {
		s.group = k.groups.Join(s.owner, d.since)
	}
}

// backlog counts the keys that are queued or have a report that waits.
func (k *keyStates[M]) backlog(queued []plan.Key) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.debounced
	for _, key := range queued {
		if s := k.all[key]; s == nil || !s.report.waiting() {
			n++
		}
	}
	return n
}

func (k *keyStates[M]) setReportLocked(s *keyState[M], d debounced) {
	k.debounced += count(d.waiting()) - count(s.report.waiting())
	s.report = d
}

func (k *keyStates[M]) setFailures(s *keyState[M], failures int) {
	k.failing += count(failures > 0) - count(s.failures > 0)
	s.failures = failures
}

// failed notes one more failure in a row, and returns how many there are.
func (k *keyStates[M]) failed(s *keyState[M], err error) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.failure = err
	k.setFailures(s, s.failures+1)
	return s.failures
}

// succeeded notes a reconcile without a failure. When it wrote nothing, no report waits and nothing is about to change by
// itself, the work in progress on the key is done, or waits for others. Earlier failures count until no report waits: it may be what has
// failed, and would otherwise be tried again and again without backoff.
func (k *keyStates[M]) succeeded(s *keyState[M], wrote bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.failure = nil
	if !s.report.waiting() {
		k.setFailures(s, 0)
		s.barrier.Explained()
	}
	if !wrote && !s.report.waiting() && !s.progressing {
		k.groups.Leave(s.group)
		s.group = nil
	}
}

// release ends the worker's hold of a key whose reconcile has cost so much, and forgets a state that says nothing.
func (k *keyStates[M]) release(key plan.Key, s *keyState[M], cost time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.cooldown = time.Time{}
	if d := cooldown(cost); d > 0 {
		s.cooldown = time.Now().Add(d)
	}
	if s.idle() {
		delete(k.all, key)
	}
}

// forget drops all that is remembered of a key whose object is gone (RS-7), said an Observe that was told of so many changes;
// but not the changes since, and not that it is unverified, if it was verified when the caches were read: then another object
// of the same name has come since.
func (k *keyStates[M]) forget(s *keyState[M], wasUnverified bool, told int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReportLocked(s, debounced{})
	k.setFailures(s, 0)
	k.groups.Leave(s.group)
	*s = keyState[M]{unverified: s.unverified && !wasUnverified, changes: s.changes[told:]}
}

// priority returns the priority of a key that something has happened to: what is in progress goes before anything else.
// The owner is the controlling owner of the object to which it happened, if the key is named after that.
func (k *keyStates[M]) priority(key plan.Key, level queue.Level, owner types.UID) queue.Priority {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[key]; s != nil && s.group != nil {
		return s.group.Priority()
	}
	if g := k.groups[owner]; g != nil {
		return g.Priority()
	}
	return queue.Priority{Level: level}
}

// A key that many objects enqueue, such as a Deployment of thousands of pods, could be reconciled without end while they
// change, and each reconcile costs as much as there are pods. It cools down after each for several times the cost, so that
// small objects do not wait for large ones.
const (
	cooldownFactor  = 8
	cooldownFrom    = 500 * time.Microsecond // a reconcile that was cheaper needs no cooldown
	longestCooldown = 100 * time.Millisecond
)

// cooldown is how long a key is left alone after a reconcile of that cost.
func cooldown(cost time.Duration) time.Duration {
	if cost < cooldownFrom {
		return 0
	}
	return min(cooldownFactor*cost, longestCooldown)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
