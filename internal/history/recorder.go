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
	gatherFor = 5 * time.Millisecond
	// waitForRoom is how long a worker waits to get an entry of a deletion into a full queue. Once one has waited in
	// vain, nobody waits until the disk takes something.
	waitForRoom = 250 * time.Millisecond
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
	queue   chan Entry
	stuck   atomic.Bool   // the disk has taken nothing for as long as a worker waits
	lost    atomic.Int64  // entries, since the last one about that
	problem atomic.Value  // a string: why there is no history to read; empty if there is
	reading chan struct{} // holds who reads: a scan takes time of a processor

	mu   sync.Mutex
	said map[said]bool
}

// said names a plan or a failure that is repeated.
type said struct {
	about                   Ref
	verb                    Verb
	controller, rule, error string
}

// New returns a recorder, which opens nothing before [Recorder.Run].
func New(o Options) *Recorder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r := &Recorder{Options: o, by: host, queue: make(chan Entry, mostQueued), reading: make(chan struct{}, 1),
		said: map[said]bool{}}
	r.problem.Store("the history has not been opened yet")
	return r
}

// Decided returns what a controller is to call with its decisions, see [reconcile.Hooks].
func (r *Recorder) Decided(controller string) func(reconcile.Decision) {
	return func(d reconcile.Decision) {
		for _, e := range entriesOf(controller, d) {
			r.record(e)
		}
	}
}

// Gone notes that a watch has shown an object to be gone.
func (r *Recorder) Gone(o plan.Object) {
	r.record(Entry{Time: time.Now(), Verb: Gone, Object: refOf(o), Version: o.GetResourceVersion(), Owners: ownersOf(o),
		Saw: saw(o), Inferred: r.Observer})
}

// record has an entry written. A deletion that was carried out waits for room for a moment. Plans and failures, which
// are repeated, are written once.
func (r *Recorder) record(e Entry) {
	planned := e.Inferred && e.Verb != Gone
	if (planned || e.Error != "" || e.Needless) && r.repeats(e) {
		return
	}
	e.By = r.by
	select {
	case r.queue <- e:
		return
	default:
	}
	if deletion := (e.Verb == Deleted || e.Verb == Evicted) && !planned; deletion && !r.stuck.Load() {
		timer := time.NewTimer(waitForRoom)
		defer timer.Stop()
		select {
		case r.queue <- e:
			return
		case <-timer.C:
			r.stuck.Store(true)
		}
	}
	r.lose(e.Verb, 1)
}

func (r *Recorder) lose(verb Verb, n int) {
	r.lost.Add(int64(n))
	r.count(verb, Dropped, n)
}

func (r *Recorder) count(verb Verb, result string, n int) {
	if r.Count != nil {
		r.Count(verb, result, n)
	}
}

// repeats reports whether such an entry was recorded before.
func (r *Recorder) repeats(e Entry) bool {
	one := said{e.Object, e.Verb, e.Controller, e.Rule, e.Error}
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
		var first Entry
		select {
		case first = <-r.queue:
		case <-ctx.Done():
			select {
			case first = <-r.queue:
			default:
				return
			}
		}
		err := r.write(ring, first)
		if (err != nil) != failing {
			if failing = err != nil; failing {
				logger.Info("The history cannot be written; controllers go on", "err", err.Error())
			} else {
				logger.Info("The history is written again")
			}
		}
		if len(r.queue) < mostQueued/2 {
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
func (r *Recorder) write(to *ring, first Entry) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	written := map[Verb]int{}
	lost := r.lost.Swap(0)
	if lost > 0 {
		first.encode(encoder, written)
		first = Entry{Time: time.Now(), Verb: Lost, By: r.by, Count: int(lost)}
	}
	for e, ok := first, true; ok; {
		e.encode(encoder, written)
		if lines.Len() >= mostBatch {
			break
		}
		select {
		case e = <-r.queue:
		default:
			ok = false
		}
	}
	err := to.append(lines.Bytes())
	if err != nil {
		r.lost.Add(lost)
		delete(written, Lost)
	} else {
		r.stuck.Store(false)
	}
	for verb, n := range written {
		if err != nil {
			r.lose(verb, n)
		} else {
			r.count(verb, Written, n)
		}
	}
	return err
}

// encode writes the entry as a line.
func (e Entry) encode(to *json.Encoder, written map[Verb]int) {
	if to.Encode(e) == nil { // a buffer takes everything
		written[e.Verb]++
	}
}

// readable returns an error that says why there is nothing to read.
func (r *Recorder) readable() error {
	if why, _ := r.problem.Load().(string); why != "" {
		return errors.New(why)
	}
	return nil
}
