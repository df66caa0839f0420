package faults

import (
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

const (
	// aftermath is how long after the end of a fault a process may not have caught up yet: its reflectors wait before they ask
	// again (CI-13), and so do keys whose requests have failed. What takes longer is the manager's fault.
	aftermath = 40 * time.Second
	// slow is how long a message takes that is under way for longer than without faults.
	slow = time.Second
)

// Outage is a time in which the process could not see a resource, or its requests for it were not carried out in time; of all
// resources if none is named.
type Outage struct {
	From, To time.Time
	Resource string
}

// outage is one that has not ended. It ends when its end is seen, at the latest an aftermath after the last fault.
type outage struct {
	from  time.Time
	until time.Time // the end of the last fault; zero while there is one
}

// object names what a request is about.
type object struct{ resource, namespace, name string }

func objectOf(r apiserver.Request) object { return object{r.Resource, r.Namespace, r.Name} }

// outages are those of a process.
type outages struct {
	ended   []Outage
	stopped *outage            // nothing that the process sends arrives
	blind   map[string]*outage // by resource that it watches; nil for one that it sees
	refused map[object]*outage // by object that was not written or read
}

// Outages are the times, until now, in which the process could not see or act.
func (l *Link) Outages() []Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.ended
	add := func(resource string, o *outage) {
		if o != nil {
			all = append(all, o.end(resource))
		}
	}
	add("", l.stopped)
	for resource, o := range l.blind {
		add(resource, o)
	}
	for object, o := range l.refused {
		add(object.resource, o)
	}
	return all
}

// end is the outage, if it ends now.
func (o *outage) end(resource string) Outage {
	to := time.Now()
	if latest := o.until.Add(aftermath); !o.until.IsZero() && latest.Before(to) {
		to = latest
	}
	return Outage{o.from, to, resource}
}

// hinder notes that faults have begun or ended. Cut are the resources whose watches break.
func (l *Link) hinder(cut func(resource string) bool) {
	mute := l.paused || l.down || l.latency > l.usual
	switch {
	case mute && l.stopped == nil:
		l.stopped = &outage{from: time.Now()}
	case !mute && l.stopped != nil:
		l.ended = append(l.ended, l.stopped.end(""))
		l.stopped = nil
	}
	for resource, o := range l.blind {
		l.blind[resource] = o.hindered(l.hides(resource), cut != nil && cut(resource))
	}
}

// hindered is what an outage, or none, becomes when faults have begun or ended.
func (o *outage) hindered(hidden, cut bool) *outage {
	if o == nil && (hidden || cut) {
		o = &outage{from: time.Now()}
	}
	switch {
	case o == nil:
	case hidden:
		o.until = time.Time{}
	case o.until.IsZero() || cut:
		o.until = time.Now()
	}
	return o
}

// hides reports whether events of a resource are held back.
func (l *Link) hides(resource string) bool {
	return l.paused || l.down || l.latency > l.usual || l.frozen[resource] > 0 || l.frozen[""] > 0 || l.delays[resource] > 0 || l.delays[""] > 0
}

// caughtUp notes that a watch has shown everything that there is.
func (l *Link) caughtUp(resource string) {
	if o := l.blind[resource]; o != nil && !l.hides(resource) {
		l.ended = append(l.ended, o.end(resource))
		l.blind[resource] = nil
	}
}

// refuses notes that a request was not carried out, or its answer was lost.
func (l *Link) refuses(r apiserver.Request) {
	o := l.refused[objectOf(r)]
	if o == nil {
		o = &outage{from: time.Now()}
		l.refused[objectOf(r)] = o
	}
	o.until = time.Now()
}

// answered notes that a request was carried out and the process knows.
func (l *Link) answered(r apiserver.Request) {
	if o := l.refused[objectOf(r)]; o != nil {
		l.ended = append(l.ended, o.end(r.Resource))
		delete(l.refused, objectOf(r))
	}
}

// took notes how long a message was under way.
func (l *Link) took(r apiserver.Request, since time.Time) {
	if time.Since(since) > slow {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = append(l.ended, Outage{since, time.Now(), r.Resource})
	}
}
