package faults

import (
	"slices"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// slow is how long a request or answer is under way, at least, to be an outage.
const slow = time.Second

// Object is what a request is about.
type Object struct{ Resource, Namespace, Name string }

// Watch is one of those that a manager keeps open. A resource may be watched more than once: whole and for its metadata alone, or
// with several selectors. The caches of each are filled for themselves.
type Watch struct {
	Resource  string // empty for all, and for all that the manager writes
	Selection string // by which it is told from others of the resource
}

// Outages notes when one process cannot see or act. An outage ends when the process is seen to have caught up, and not with the
// fault. All methods may be called in parallel.
type Outages struct {
	aftermath time.Duration

	mu      sync.Mutex
	ended   []oracle.Outage
	unseen  []oracle.Outage // those of ended in which a watch did not show changes
	blind   map[Watch]*open
	refused map[Object]*open
}

// open is an outage that has not ended.
type open struct {
	from  time.Time
	until time.Time // the end of the last fault; zero if that is not known yet
}

// newOutages returns an empty log. What has not ended an aftermath after the last fault is the manager's fault, and no outage.
func newOutages(aftermath time.Duration) *Outages {
	return &Outages{aftermath: aftermath, blind: map[Watch]*open{}, refused: map[Object]*open{}}
}

// Blind notes that a watch does not show changes, because of a fault that lasts until a time; zero if that is not known yet.
func (l *Outages) Blind(watch Watch, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.blind[watch]
	if o == nil {
		o = &open{from: time.Now(), until: until}
		l.blind[watch] = o
	}
	if until.IsZero() || o.until.IsZero() || until.After(o.until) {
		o.until = until
	}
}

// CaughtUp notes that a watch has shown all changes. It ends no outage whose fault lasts, and none of another watch.
func (l *Outages) CaughtUp(watch Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.blind[watch]; o != nil && !o.until.IsZero() && !o.until.After(time.Now()) {
		l.end(o, watch.Resource)
		l.unseen = append(l.unseen, l.ended[len(l.ended)-1])
		delete(l.blind, watch)
	}
}

// Refused notes that a request was not carried out, or its answer is lost.
func (l *Outages) Refused(object Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.refused[object]
	if o == nil {
		o = &open{from: time.Now()}
		l.refused[object] = o
	}
	o.until = time.Now()
}

// Answered notes that a request was carried out, and the manager knows.
func (l *Outages) Answered(object Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.refused[object]; o != nil {
		l.end(o, object.Resource)
		delete(l.refused, object)
	}
}

// Took notes since when a request or answer was under way that has just arrived. One that was sent at the very end of an outage was
// decided without what the watch did not show.
func (l *Outages) Took(resource string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sentIn := func(o oracle.Outage) bool {
		return (o.Resource == "" || o.Resource == resource) && !since.Before(o.From) && !since.After(o.To)
	}
	if took := time.Since(since); took > slow || took > 0 && slices.ContainsFunc(l.unseen, sentIn) {
		l.end(&open{from: since}, resource)
	}
}

func (l *Outages) end(o *open, resource string) {
	to := time.Now()
	if latest := o.until.Add(l.aftermath); !o.until.IsZero() && latest.Before(to) {
		to = latest
	}
	l.ended = append(l.ended, oracle.Outage{Interval: oracle.Interval{From: o.from, To: to}, Resource: resource})
}

// All are those until now, as if they ended now.
func (l *Outages) All() []oracle.Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.ended)
	for watch, o := range l.blind {
		l.end(o, watch.Resource)
	}
	for object, o := range l.refused {
		l.end(o, object.Resource)
	}
	all := append([]oracle.Outage(nil), l.ended...)
	l.ended = l.ended[:before]
	return all
}
