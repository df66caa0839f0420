package keystate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// State is what a runner remembers of a key between two reconciles. It is a small state machine. A key is
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
// Its events are the methods of [States]: an event handler calls Unverify and Record; the worker that has the key calls
// Admit. If the key is cooling down, that is all. Otherwise any of Observed, IsUnverified, Verified, Unanswered,
// Commit, Debounce and Forget follow, then Succeeded or Failed, or neither if the key waits for a cache, and last
// Release.
type State[M, C any] struct {
	// Touched only by the worker that has the key.
	Barrier     freshness.Barrier
	Progressing bool        // more is about to change by itself, said the last report
	Taken       int         // reconciles in a row that found an object to exist which the caches did not show
	Early       bool        // the next retry comes before the backoff is over, since there is more to report then
	Held        string      // what the last plan holds; empty for nothing
	Aliases     []plan.Key  // other names by which people know the key
	look        *time.Timer // has the key reconciled again in case that the caches never show what was written

	// Guarded by the lock of [States].
	memory     *M        // what Observe has returned to be remembered; nil for nothing
	subject    types.UID // of the object that the memory is about; empty if it is about more than one
	owner      types.UID // of the controlling owner of the key's object: keys with the same one are a work group
	unverified bool
	stale      int           // attempts in a row that found the barrier closed
	failures   int           // in a row
	failing    time.Time     // when the first of them was
	failed     time.Time     // when the last of them was
	failure    error         // of the last reconcile
	cooldown   time.Time     // the key is not reconciled before, unless its own object has a new generation
	generation bool          // the key's own object has got a new one since the last reconcile began
	cut        time.Duration // what was cut off cooldowns since one was last kept
	report     debounced     // a report that waits for a newer one
	group      *queue.Group
	changes    records[C] // of watches that record them, since the memory was last committed
}

// LookAfter has look called after d, unless a reconcile begins before: the caches then show what this one has written.
func (s *State[M, C]) LookAfter(d time.Duration, look func()) {
	s.look = time.AfterFunc(d, look)
}

// stopLook notes that a reconcile begins.
func (s *State[M, C]) stopLook() {
	if s.look != nil {
		s.look.Stop()
		s.look = nil
	}
}

// idle reports whether the state says nothing.
func (s *State[M, C]) idle() bool {
	return s.look == nil && !s.unverified && !s.report.waiting() && s.group == nil && s.cooldown.IsZero() &&
		s.failures == 0 && s.stale == 0 && s.memory == nil && len(s.changes.all) == 0 && s.Barrier.Empty() &&
		s.Taken == 0 && s.Held == "" && len(s.Aliases) == 0
}

// States are the states of a controller's keys. It is safe for concurrent use. Its size follows the keys of which there
// is something to remember, not the keys that exist.
type States[K comparable, M, C any] struct {
	mu        sync.Mutex
	all       map[K]*State[M, C]
	groups    queue.Groups
	debounced int // keys with a report that waits
	failing   int // keys that have failed
}

// New returns no states.
func New[K comparable, M, C any]() *States[K, M, C] {
	return &States[K, M, C]{all: map[K]*State[M, C]{}, groups: queue.Groups{}}
}

func (k *States[K, M, C]) get(key K) *State[M, C] {
	s := k.all[key]
	if s == nil {
		s = &State[M, C]{}
		k.all[key] = s
	}
	return s
}

// End stops all timers. It is for the end of a term, when no worker has a key any more.
func (k *States[K, M, C]) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		s.stopLook()
	}
}

// Len counts the keys of which something is remembered.
func (k *States[K, M, C]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all)
}

// Counts returns how many keys have a report that waits, and how many have failed.
func (k *States[K, M, C]) Counts() (debounced, failing int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.debounced, k.failing
}

// Unverify marks a key whose caches may lack what a previous leader wrote.
func (k *States[K, M, C]) Unverify(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.get(key).unverified = true
}

// Record keeps a change for the key's next Observe.
func (k *States[K, M, C]) Record(key K, c C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.get(key).changes.add(c)
}

// RecordLatest does the same, in place of an earlier one of the same object that is kept.
func (k *States[K, M, C]) RecordLatest(key K, of Object, c C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.get(key).changes.replace(of, c)
}

// Admission says whether a reconcile of a key may begin.
type Admission struct {
	Wait    time.Duration           // zero: it may; else when to try again
	Stale   bool                    // the barrier is closed; otherwise, to wait means that the key is cooling down
	Missing schema.GroupVersionKind // of a stale key: a kind whose caches lack something
}

// verifyAfter is how many attempts in a row may find the barrier closed (about ten seconds of timers; events count,
// too) before absences that are waited for are given up and listed live again. Versions and own deletions are waited
// for without end.
const verifyAfter = 15

// Admit decides whether a reconcile of the key may begin.
func (k *States[K, M, C]) Admit(key K, caches freshness.Caches, now time.Time) (*State[M, C], Admission) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.get(key)
	if wait := s.coolsDown(now); wait > 0 {
		return s, Admission{Wait: wait}
	}
	state := s.Barrier.Check(caches)
	if state.Unverified {
		s.unverified = true
	}
	if state.Open {
		s.stale = 0
		s.stopLook()
		return s, Admission{}
	}
	s.stale++
	if s.stale%verifyAfter == 0 && s.Barrier.DropAbsences() {
		s.unverified = true
	}
	return s,
		Admission{Wait: plan.Doubling(10*time.Millisecond, time.Second, s.stale), Stale: true, Missing: state.Missing}
}

// NewGeneration notes that the key's own object has a new generation: what somebody has asked for a moment after a
// reconcile does not wait for the end of the cooldown.
func (k *States[K, M, C]) NewGeneration(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[key]; s != nil {
		s.generation = true
	}
}

// coolsDown returns how long the key still cools down. A new generation of its object cuts that short, but in a row no
// more than the longest cooldown in all: who changes an object without end gains no more than that.
func (s *State[M, C]) coolsDown(now time.Time) time.Duration {
	wait := s.cooldown.Sub(now)
	switch {
	case wait > 0 && (!s.generation || s.cut+wait > longestCooldown):
		return wait
	case wait > 0:
		s.cut += wait
	case !s.cooldown.IsZero():
		s.cut = 0
	}
	s.generation = false
	return 0
}

// IsUnverified reports whether the caches have to be compared with the server before the next write.
func (k *States[K, M, C]) IsUnverified(s *State[M, C]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.unverified
}

// Verified notes that the caches were compared with the server; what they lack is behind the barrier.
func (k *States[K, M, C]) Verified(s *State[M, C]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.unverified = false
}

// Unanswered notes a write of which it is not known what became of it.
func (k *States[K, M, C]) Unanswered(s *State[M, C]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.unverified = true
}

// Observed is what is remembered of a key for its next Observe.
type Observed[M, C any] struct {
	Memory  *M
	Subject types.UID // of the object that the memory is about; empty if it is about more than one
	Changes []C
	Missed  bool // there were more changes than are kept
	Failure error
	// Failures counts those in a row.
	Failures int
}

// Observed returns what the key's next Observe gets.
func (k *States[K, M, C]) Observed(s *State[M, C]) Observed[M, C] {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.changes.observed = s.changes.number
	return s.observed()
}

func (s *State[M, C]) observed() Observed[M, C] {
	return Observed[M, C]{s.memory, s.subject, s.changes.list(), s.changes.lost > 0, s.failure, s.failures}
}

// Peek returns the same for a key that somebody asks about.
func (k *States[K, M, C]) Peek(key K) (o Observed[M, C]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[key]; s != nil {
		o = s.observed()
	}
	return o
}

// Commit replaces the key's memory by what the last Observe returned, and drops the changes that it was given. The
// subject, which may be empty, is the uid of the object that the memory is about.
func (k *States[K, M, C]) Commit(s *State[M, C], memory *M, subject types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.memory, s.subject = memory, subject
	s.changes.dropObserved()
}

// SetOwner notes the uid of the controlling owner of the key's object, empty if it has none.
func (k *States[K, M, C]) SetOwner(s *State[M, C], owner types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.owner = owner
}

// waitForTurn notes the report that waits for keys that go first: work on the key is not in progress.
func (k *States[K, M, C]) waitForTurn(s *State[M, C], d debounced) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReportLocked(s, d)
}

// setReport notes the report that waits, if one does. Work on the key is in progress from then on.
func (k *States[K, M, C]) setReport(s *State[M, C], d debounced) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReportLocked(s, d)
	if d.waiting() && s.group == nil {
		s.group = k.groups.Join(s.owner, d.since)
	}
}

// backlog counts the keys that are queued or have a report that waits.
func (k *States[K, M, C]) backlog(queued []K) int {
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

func (k *States[K, M, C]) setReportLocked(s *State[M, C], d debounced) {
	k.debounced += count(d.waiting()) - count(s.report.waiting())
	s.report = d
}

func (k *States[K, M, C]) setFailures(s *State[M, C], failures int) {
	k.failing += count(failures > 0) - count(s.failures > 0)
	if s.failures == 0 {
		s.failing = time.Now()
	}
	s.failures = failures
}

// Failed notes one more failure in a row, and returns how many there are.
func (k *States[K, M, C]) Failed(s *State[M, C], err error) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.failure, s.failed = err, time.Now()
	k.setFailures(s, s.failures+1)
	return s.failures
}

// FailingFor returns how long ago the first of the failures in a row was.
func (k *States[K, M, C]) FailingFor(s *State[M, C]) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.failures == 0 {
		return 0
	}
	return time.Since(s.failing)
}

// Succeeded notes a reconcile without a failure. If more is about to change by itself, work on the key is in progress.
// When it wrote nothing, no report waits and nothing is about to change by itself, the work in progress on the key is
// done, or waits for others. Earlier failures count until no report waits: it may be what has failed, and would
// otherwise be tried again and again without backoff. So it is with a reconcile that has written nothing and only
// prepares the next one, which is to come after that time: it has found out something that what has failed needs.
func (k *States[K, M, C]) Succeeded(s *State[M, C], wrote bool, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.failure = nil
	if !s.report.waiting() && !s.prepares(wrote, next) {
		k.setFailures(s, 0)
		s.Barrier.Explained()
	}
	switch {
	case s.Progressing && s.group == nil:
		s.group = k.groups.Join(s.owner, time.Now())
	case !wrote && !s.report.waiting() && !s.Progressing:
		k.groups.Leave(s.group)
		s.group = nil
	}
}

// preparation is how long after what has failed was to be tried again another reconcile may still prepare that.
const preparation = 10 * time.Second

// prepares reports whether a reconcile may only prepare another try of what has failed.
func (s *State[M, C]) prepares(wrote bool, next time.Duration) bool {
	return s.failures > 0 && !wrote && next > 0 && time.Since(s.failed) < queue.Backoff(s.failures, nil)+preparation
}

// Release ends the worker's hold of a key after a reconcile of this cost, and forgets a state that says nothing.
func (k *States[K, M, C]) Release(key K, s *State[M, C], cost time.Duration) {
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

// Forget drops all that is remembered of a key whose object was gone at the last Observe (RS-7). It keeps the changes
// since then. It keeps that the key is unverified, if the key was verified when the caches were read: then another
// object of the same name has come since.
func (k *States[K, M, C]) Forget(s *State[M, C], wasUnverified bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReportLocked(s, debounced{})
	k.setFailures(s, 0)
	k.groups.Leave(s.group)
	s.changes.dropObserved()
	*s = State[M, C]{unverified: s.unverified && !wasUnverified, changes: s.changes}
}

// Priority returns the priority of a key that something has happened to: what is in progress comes before anything
// else. The owner is the controlling owner of the object to which it happened, if the key is named after that.
func (k *States[K, M, C]) Priority(key K, level queue.Level, owner types.UID) queue.Priority {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.all[key]
	if s != nil && s.group != nil {
		return s.group.Priority()
	}
	if g := k.groups[owner]; g != nil {
		return g.Priority()
	}
	if s != nil && owner == "" {
		owner = s.owner
	}
	return queue.Priority{Level: level, Owner: owner}
}

// A key that many objects enqueue, such as a Deployment of thousands of pods, could be reconciled without end while
// they change, and each reconcile costs as much as there are pods. It cools down after each for several times the cost,
// so that small objects do not wait for large ones.
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
