package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// mostQueued bounds the entries that wait for the disk.
	mostQueued = 8192
	// mostBatch is about how many bytes one write has.
	mostBatch = 32 << 10
	// gatherFor is the time between two writes while entries come: a write for each would cost more than the entries
	// do. What comes after a pause is written at once.
	gatherFor = 2 * time.Millisecond
	// waitForDisk is how long a worker waits until the disk has what it is about to delete, and to get what it has
	// deleted into a full queue. Once one has waited in vain, nobody waits until the disk takes something.
	waitForDisk = 250 * time.Millisecond
	// openAgainAfter is the time between tries to open the folder.
	openAgainAfter = 5 * time.Second
	// mostSaid bounds of how many plans and failures it is remembered that they were kept.
	mostSaid = 8192
)

// Least is the least value of [Options.Most].
const Least = 1 << 20

// What became of an entry.
const (
	Written = "written"
	Dropped = "lost"
)

// Options say where history is kept.
type Options struct {
	Dir  string // a folder that no other process uses; it is made if it is missing
	Most int64  // bytes of all files, at least [Least]
	// Observer: the process only observes. That it has not planned the deletion of what is gone says little: whoever
	// leads may have been quicker.
	Observer bool
	// Count is called with what became of entries, for metrics. It may be nil.
	Count func(verb Verb, result string, n int)
}

// Recorder takes entries from controllers and caches, and writes them.
type Recorder struct {
	Options
	by      string
	queue   chan queued
	waiting atomic.Int32  // workers that wait until the disk has what they are about to delete
	stuck   atomic.Bool   // the disk has taken nothing for as long as a worker waits
	lost    atomic.Int64  // entries, since the last one about that
	problem atomic.Value  // a string: why there is no history to read; empty if there is
	reading chan struct{} // holds who reads: a scan takes time of a processor

	mu   sync.Mutex
	said map[said]bool
}

// queued is an entry that waits for the disk.
type queued struct {
	Entry
	// done is closed when all that was queued before has been written or refused. Then there is no entry.
	done chan<- struct{}
}

// said names a plan or a failure that is repeated.
type said struct {
	about                   Ref
	key                     types.UID
	verb                    Verb
	controller, rule, error string
}

// New returns a recorder, which opens nothing before [Recorder.Run].
func New(o Options) *Recorder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r := &Recorder{Options: o, by: host, queue: make(chan queued, mostQueued), reading: make(chan struct{}, 1),
		said: map[said]bool{}}
	r.problem.Store("the history has not been opened yet")
	return r
}

// Decided returns what a controller is to call with its decisions, see [reconcile.Hooks].
func (r *Recorder) Decided(controller string) func(reconcile.Decision) {
	return func(d reconcile.Decision) {
		entries := entriesOf(controller, d)
		for _, e := range entries {
			// The next try is worth an entry of its own, unless it is one of many that fail in the same way.
			if r.record(e) && e.deletion() && !e.Inferred {
				r.forget(e)
			}
		}
		for _, e := range sparedOf(controller, d, entries) {
			if r.forget(e) {
				r.record(e)
			}
		}
	}
}

// Applying returns what a controller is to call before it carries out a plan, see [reconcile.Hooks]: what it is about
// to delete is in a file before the API server is asked. A disk that takes nothing delays that once, for a moment.
func (r *Recorder) Applying(controller string) func(context.Context, reconcile.Decision) {
	return func(ctx context.Context, d reconcile.Decision) {
		news := false
		for _, e := range pendingOf(controller, d) {
			news = r.record(e) || news
		}
		if news && !r.stuck.Load() && !r.flush(ctx) {
			r.stuck.Store(true)
		}
	}
}

// flush waits until what was recorded has been written, or has been refused. It returns false if the disk takes too
// long.
func (r *Recorder) flush(ctx context.Context) bool {
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	done, timer := make(chan struct{}), time.NewTimer(waitForDisk)
	defer timer.Stop()
	select {
	case r.queue <- queued{done: done}:
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
		return false
	}
	return true
}

// Gone notes that a watch has shown an object to be gone.
func (r *Recorder) Gone(o plan.Object) {
	r.record(Entry{Time: time.Now(), Verb: Gone, Object: refOf(o), Version: o.GetResourceVersion(), Owners: ownersOf(o),
		Made: o.GetCreationTimestamp().Time, Saw: saw(o), Inferred: r.Observer})
}

// record has an entry written, and reports whether it is to be. A deletion that was carried out waits for room for a
// moment. Plans and failures, which are repeated, are written once.
func (r *Recorder) record(e Entry) bool {
	planned := e.Inferred && e.Verb != Gone || e.Verb == Deleting
	if (planned || e.Error != "" || e.Needless) && r.repeats(e) {
		return false
	}
	e.By = r.by
	select {
	case r.queue <- queued{Entry: e}:
		return true
	default:
	}
	if waits := (e.deletion() || e.Verb == Deleting) && !e.Inferred; waits && !r.stuck.Load() {
		timer := time.NewTimer(waitForDisk)
		defer timer.Stop()
		select {
		case r.queue <- queued{Entry: e}:
			return true
		case <-timer.C:
			r.stuck.Store(true)
		}
	}
	r.lose(e.Verb, 1)
	return false
}

// lose counts entries that are lost. What is said again is then to be kept again.
func (r *Recorder) lose(verb Verb, n int) {
	r.lost.Add(int64(n))
	r.count(verb, Dropped, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.said)
}

func (r *Recorder) count(verb Verb, result string, n int) {
	if r.Count != nil {
		r.Count(verb, result, n)
	}
}

// repeats reports whether such an entry was recorded before.
func (r *Recorder) repeats(e Entry) bool {
	one := e.said(e.Verb)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said[one] {
		return true
	}
	if len(r.said) >= mostSaid {
		clear(r.said)
	}
	r.said[one] = true
	return false
}

// said is what distinguishes what is repeated.
func (e *Entry) said(verb Verb) said {
	one := said{about: e.Object, verb: verb, controller: e.Controller, rule: e.Rule, error: e.Error}
	if verb == Deleting {
		one.error = ""
	}
	if e.Key != nil { // all objects of a kind in a namespace have no uid, but the namespace has one
		one.key = e.Key.UID
	}
	return one
}

// forget has the next time that a controller is about to delete the object kept, and reports whether the last one was.
func (r *Recorder) forget(e Entry) (was bool) {
	one := e.said(Deleting)
	r.mu.Lock()
	defer r.mu.Unlock()
	was = r.said[one]
	delete(r.said, one)
	return was
}

// Run writes entries until ctx ends, and then those that were recorded before. A folder that cannot be opened is tried
// again; what the disk does not take is lost, and counted.
func (r *Recorder) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("dir", r.Dir)
	ring := r.open(ctx, logger)
	if ring == nil {
		return
	}
	defer func() {
		r.problem.Store("the history is closed")
		if err := ring.close(); err != nil {
			logger.Info("The history was not closed", "err", err.Error())
		}
	}()
	r.problem.Store("")
	failing := false
	for {
		var first queued
		select {
		case first = <-r.queue:
		case <-ctx.Done():
			select {
			case first = <-r.queue:
			default:
				return
			}
		}
		began := time.Now()
		err := r.write(ring, first)
		if err == nil && time.Since(began) < waitForDisk {
			r.stuck.Store(false)
		}
		if (err != nil) != failing {
			if failing = err != nil; failing {
				logger.Info("The history cannot be written; controllers go on", "err", err.Error())
			} else {
				logger.Info("The history is written again")
			}
		}
		if len(r.queue) < mostQueued/2 && r.waiting.Load() == 0 {
			clock.Sleep(ctx, gatherFor)
		}
	}
}

// open opens the folder, as often as it takes; nil if ctx ends before.
func (r *Recorder) open(ctx context.Context, logger klog.Logger) *ring {
	for last := ""; ; {
		ring, err := openRing(r.Dir, r.Most)
		if err == nil {
			return ring
		}
		if err.Error() != last {
			last = err.Error()
			r.problem.Store(last)
			logger.Info("No history is kept; controllers go on", "err", last, "againAfter", openAgainAfter.String())
		}
		if !clock.Sleep(ctx, openAgainAfter) {
			return nil
		}
	}
}

// write writes an entry, and those that wait behind it as far as they fit into one write.
func (r *Recorder) write(to *ring, first queued) error {
	b := batch{written: map[Verb]int{}, tooLong: map[Verb]int{}}
	lost := r.lost.Swap(0)
	if lost > 0 {
		b.add(queued{Entry: Entry{Time: time.Now(), Verb: Lost, By: r.by, Count: int(lost)}})
	}
	for e, ok := first, true; ok; {
		if b.add(e); b.lines.Len() >= mostBatch {
			break
		}
		select {
		case e = <-r.queue:
		default:
			ok = false
		}
	}
	err := b.appendTo(to)
	if err != nil {
		r.lost.Add(lost)
		delete(b.written, Lost)
	}
	for verb, n := range b.tooLong {
		r.lose(verb, n)
	}
	for verb, n := range b.written {
		if err != nil {
			r.lose(verb, n)
		} else {
			r.count(verb, Written, n)
		}
	}
	return err
}

// batch is what one write has.
type batch struct {
	lines   bytes.Buffer
	written map[Verb]int
	tooLong map[Verb]int // no entry should be, as its fields are bounded
	waiting []chan<- struct{}
}

func (b *batch) add(e queued) {
	if e.done != nil {
		b.waiting = append(b.waiting, e.done)
		return
	}
	before := b.lines.Len()
	if err := json.NewEncoder(&b.lines).Encode(e.Entry); err != nil || b.lines.Len()-before >= longestLine {
		b.lines.Truncate(before)
		b.tooLong[e.Verb]++
		return
	}
	b.written[e.Verb]++
}

// appendTo writes the batch, and tells who waits for it.
func (b *batch) appendTo(to *ring) (err error) {
	if b.lines.Len() > 0 {
		err = to.append(b.lines.Bytes())
	}
	for _, done := range b.waiting {
		close(done)
	}
	return err
}

// readable returns an error that says why there is nothing to read.
func (r *Recorder) readable() error {
	if why, _ := r.problem.Load().(string); why != "" {
		return errors.New(why)
	}
	return nil
}
