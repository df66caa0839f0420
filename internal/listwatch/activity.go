package listwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/internal/health"
)

// Liveness reports which watches are alive. A cache does not know by itself: on a quiet cluster nothing in it changes
// for hours, while the API server sends a bookmark about once a minute.
type Liveness struct {
	mu sync.Mutex
	// byResource has the activity of each cache.
	byResource map[string]*Activity

	cuts   atomic.Int64  // how many watches have ended before their time
	proved atomic.Int64  // after how many of them the server is known not to have gone back
	turn   chan struct{} // who has it may ask the server
	// unsure says why nothing was proved when that was last tried, and unsureAt when; who has the turn may touch them.
	unsure   error
	unsureAt time.Time
}

// NewLiveness returns one without any activity.
func NewLiveness() *Liveness {
	return &Liveness{byResource: map[string]*Activity{}, turn: make(chan struct{}, 1)}
}

// Of returns the activity of the resource, such as "pods".
func (l *Liveness) Of(resource string) *Activity {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byResource[resource] == nil {
		l.byResource[resource] = &Activity{cuts: &l.cuts}
	}
	return l.byResource[resource]
}

// Activity is what is known of the lists and watches of one resource.
type Activity struct {
	cut      atomic.Bool     // the last watch has ended before its time
	cuts     *atomic.Int64   // counts such watches of all resources; nil where nobody asks
	refusals health.Refusals // of lists and watches

	mu        sync.Mutex
	first     time.Time     // when the first request began; zero if there was none
	attempted time.Time     // when a request last began or ended, whether or not it succeeded
	received  time.Time     // when the server last answered a request with success, or sent an event
	open      *trackedWatch // the watch that is open; nil if none is
	ends      time.Time     // when the open watch ends by itself
	bookmarks bool          // the server sends bookmarks, so silence for several minutes is a fault
	version   string        // the last resource version that a list or an event has brought
	read      versionReader // nil before anything was to be listed
}

// lateEnd is how long a watch may outlast the time after which it was to end before it counts as stalled.
const lateEnd = time.Minute

// LastActivity returns when the server last answered a list or watch or sent an event; zero if it never has.
func (a *Activity) LastActivity() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.received
}

// Stalled returns an error if for longer than bound the server has sent nothing and no request has begun or failed: a
// watch is open without events, or no watch is open and none is attempted. An API server that cannot be reached does
// not make a watch stalled, because requests go on to fail.
func (a *Activity) Stalled(bound time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.silence(a.attempted, bound)
}

// Stale returns an error if the server has sent nothing for longer than bound, whatever the reason.
func (a *Activity) Stale(bound time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.silence(time.Time{}, bound)
}

// silence compares the time since the last activity, or since the given time if that is later, with the bound. Before
// the first request nothing is expected. Nor is anything expected on an open watch of a server that has never sent a
// bookmark, until that watch is to end.
func (a *Activity) silence(since time.Time, bound time.Duration) error {
	now := time.Now()
	for _, t := range []time.Time{a.first, a.received} {
		if t.After(since) {
			since = t
		}
	}
	silent := now.Sub(since)
	expected := a.open == nil || a.bookmarks || now.Sub(a.ends) > lateEnd
	if a.first.IsZero() || silent <= bound || !expected {
		return nil
	}
	if a.open != nil {
		return fmt.Errorf("the watch is open, but nothing has come for %v", silent.Round(time.Second))
	}
	return fmt.Errorf("no watch is open, and nothing has come for %v", silent.Round(time.Second))
}

// attempt notes that a request begins or has failed, or that a watch has ended. The caller holds the lock.
func (a *Activity) attempt() {
	a.attempted = time.Now()
	if a.first.IsZero() {
		a.first = a.attempted
	}
}

// Refused returns an error if the API server has refused to list or to watch for a while and until now: the identity
// is not valid, or lacks a right.
func (a *Activity) Refused() error { return a.refusals.Any() }

// track returns the function, which lists or watches, such that its calls and their results are noted.
func track[T any](s *Source, verb string,
	request func(context.Context, metav1.ListOptions) (T, error)) func(context.Context, metav1.ListOptions) (T, error) {
	a := s.Activity
	return func(ctx context.Context, o metav1.ListOptions) (T, error) {
		a.mu.Lock()
		a.attempt()
		a.mu.Unlock()
		result, err := request(ctx, o)
		a.answered(ctx, verb, s.Resource, err)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil {
			a.attempt()
		} else {
			a.received = time.Now()
		}
		return result, err
	}
}

// answered notes whether a request was refused. That nobody has answered says nothing of it.
func (a *Activity) answered(ctx context.Context, verb, resource string, err error) {
	var status apierrors.APIStatus
	switch answered := errors.As(err, &status); {
	case answered && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)):
		a.refusals.Refused(ctx, verb, resource, int(status.Status().Code))
	case answered || err == nil:
		a.refusals.Allowed(verb, resource)
		if verb == "watch" { // which may bring what would else be listed
			a.refusals.Allowed("list", resource)
		}
	}
}

// trackedWatch is a watch whose events are converted and noted. (A watch.Filter that is stopped would wait for ever for
// somebody to take the event that it holds.)
type trackedWatch struct {
	watch.Interface
	activity *Activity
	// convert reduces an object to what the cache keeps; nil where it has been when it was decoded.
	convert func(watch.Event) watch.Event
	events  chan watch.Event
	// stopped is closed when nobody wants more.
	stopped chan struct{}
	once    sync.Once
}

// trackWatch starts to track a watch that was opened with the options. It ends when it is stopped, or the watch ends.
func trackWatch(a *Activity, w watch.Interface, o metav1.ListOptions,
	convert func(watch.Event) watch.Event) *trackedWatch {
	t := &trackedWatch{Interface: w, activity: a, convert: convert, events: make(chan watch.Event),
		stopped: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.ends = t, time.Now()
	if o.TimeoutSeconds != nil {
		a.ends = a.ends.Add(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	go t.run()
	return t
}

// ResultChan implements watch.Interface.
func (t *trackedWatch) ResultChan() <-chan watch.Event { return t.events }

// Stop implements watch.Interface.
func (t *trackedWatch) Stop() {
	t.once.Do(func() { close(t.stopped) })
	t.Interface.Stop()
	t.ended()
}

// run hands on what a watch brings, as a sign of life and reduced to what the cache keeps, until either side
// ends.
func (t *trackedWatch) run() {
	defer close(t.events)
	defer t.ended()
	for e := range t.Interface.ResultChan() {
		t.note(e)
		if t.convert != nil {
			e = t.convert(e)
		}
		select {
		case t.events <- e:
		case <-t.stopped:
			return
		}
	}
}

// note notes that an event has come. The bookmark that ends the initial events (CI-12) does not promise others.
func (t *trackedWatch) note(e watch.Event) {
	bookmark, version := e.Type == watch.Bookmark, ""
	if o, err := meta.Accessor(e.Object); err == nil {
		version = o.GetResourceVersion()
		bookmark = bookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
	}
	a := t.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = time.Now()
	a.bookmarks = a.bookmarks || bookmark
	a.version = cmp.Or(version, a.version)
}

// ended notes the end of the watch, once.
func (t *trackedWatch) ended() {
	a := t.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == t {
		a.open = nil
		if time.Now().Before(a.ends.Add(-cutMargin)) {
			a.cut.Store(true)
			if a.cuts != nil {
				a.cuts.Add(1)
			}
		}
		a.attempt()
	}
}
