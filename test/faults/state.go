package faults

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

// State is what is wrong at present between one process and the API server.
type State struct {
	// Outages are the times in which the process cannot see or act.
	Outages *Outages
	// Injected, if set, is told of each request and event that a fault meets. It must not call the state.
	Injected func(what string, f Fault)

	mu       sync.Mutex
	changed  chan struct{} // closed when anything below changes
	dead     bool
	active   []*active
	writes   int            // that have left the process
	epochs   map[string]int // how often watches were cut, by resource
	expiries map[string]int // how often they could not go on where they were

	watched    map[Watch]bool // those of the process, and whether their events are held back
	wasStopped bool
}

// active is a fault that has begun and not ended.
type active struct {
	Fault
	left, writes int
	each         map[string]int // requests that it has met, by object and verb
}

// New returns a state without faults. A process may not have caught up for an aftermath after the end of a fault: its reflectors
// wait before they ask again (CI-13), and so do keys whose requests have failed.
func New(aftermath time.Duration) *State {
	return &State{
		Outages: newOutages(aftermath), changed: make(chan struct{}),
		epochs: map[string]int{}, expiries: map[string]int{}, watched: map[Watch]bool{},
	}
}

// change alters the state and lets everybody know.
func (s *State) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := maps.Clone(s.epochs)
	do()
	s.noteFaults(func(resource string) bool {
		return s.epochs[""] != before[""] || s.epochs[resource] != before[resource]
	})
	close(s.changed)
	s.changed = make(chan struct{})
}

// Begin begins a fault. The caller ends those that last. What concerns more than this state, such as to stop a process, is left to
// the caller.
func (s *State) Begin(f Fault) (end func()) {
	a := &active{Fault: f, left: f.Left, writes: f.Writes, each: map[string]int{}}
	s.change(func() {
		switch f.Word {
		case "cut", "expire", "down":
			s.cut(f.Resource, f.Word == "expire")
		}
		if f.Word != "cut" && f.Word != "expire" {
			s.active = append(s.active, a)
		}
	})
	return func() {
		s.change(func() {
			s.remove(a)
			if f.Word == "down" || f.Hide {
				s.cut(f.Resource, f.Hide)
			}
		})
	}
}

func (s *State) cut(resource string, expire bool) {
	s.epochs[resource]++
	if expire {
		s.expiries[resource]++
	}
}

func (s *State) remove(a *active) {
	s.active = slices.DeleteFunc(s.active, func(b *active) bool { return a == b })
}

// Heal ends all faults but death.
func (s *State) Heal() { s.change(func() { s.active = nil }) }

// Kill lets the process die: nothing that it sends arrives from here on.
func (s *State) Kill() { s.change(func() { s.dead = true }) }

// Way is what lies between the process and the server at a moment.
type Way struct {
	Dead   bool // the process is
	Down   bool // the server cannot be reached
	Paused bool // the process stands still
	Silent bool // nothing gets through
	// Changed is closed when that may have changed.
	Changed <-chan struct{}
}

// Way returns what lies between the process and the server now.
func (s *State) Way() Way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Way{s.dead, s.has("down"), s.has("pause"), s.has("silent"), s.changed}
}

func (s *State) has(word string) bool {
	return slices.ContainsFunc(s.active, func(a *active) bool { return a.Word == word })
}

// Latency is how long a request takes each way because of a fault; 0 without one.
func (s *State) Latency(r apirequest.Request) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, f := s.longest(r.Resource, "slow")
	if f != nil {
		s.inject(Describe(r), f)
	}
	return d
}

// Waits is how long a creation waits in a webhook after the server has looked whether the namespace takes it, at most; 0 without one.
func (s *State) Waits(r apirequest.Request) time.Duration {
	if r.Verb != "create" || r.Subresource != "" || isNoise(r) {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, f := s.longest(r.Resource, "webhook")
	if f != nil {
		s.inject(Describe(r), f)
	}
	return d
}

// Lag is how far the server's cache of a resource is behind.
func (s *State) Lag(resource string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _ := s.longest(resource, "lag")
	return d
}

// longest is the longest time of the faults of a resource that some words name.
func (s *State) longest(resource string, words ...string) (d time.Duration, of *active) {
	for _, a := range s.active {
		if (a.Resource == "" || a.Resource == resource) && slices.Contains(words, a.Word) && a.Time > d {
			d, of = a.Time, a
		}
	}
	return d, of
}

// Sends decides what becomes of a request that the process sends. It returns the fault that ends it: one that refuses it, or the
// crash at which the process dies before.
func (s *State) Sends(r apirequest.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.active {
		if a.Word != "crash" || !a.meets(r) {
			continue
		}
		if a.writes--; a.writes < 0 && !a.After {
			return s.hit(r, a)
		}
	}
	if IsWork(r) {
		s.writes++
	}
	return s.refuses(r, false)
}

// Writes is how many writes have left the process of those that a crash at any write counts.
func (s *State) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Hears decides what becomes of the answer to a request that was carried out, likewise.
func (s *State) Hears(r apirequest.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.active {
		if a.Word == "crash" && a.writes < 0 && a.meets(r) {
			return s.hit(r, a)
		}
	}
	f := s.refuses(r, true)
	if f == nil {
		s.Outages.Answered(objectOf(r))
	}
	return f
}

func (s *State) refuses(r apirequest.Request, after bool) *Fault {
	for _, a := range s.active {
		if a.Word != "refuse" || a.After != after || a.left == 0 || !a.meets(r) {
			continue
		}
		if a.Each > 0 {
			key := Describe(r)
			if a.each[key] == a.Each {
				continue
			}
			a.each[key]++
		}
		if a.left > 0 {
			a.left--
		}
		return s.hit(r, a)
	}
	return nil
}

// hit notes that a fault has met a request. A crash happens once.
func (s *State) hit(r apirequest.Request, a *active) *Fault {
	s.inject(Describe(r), a)
	if a.Word == "crash" {
		s.remove(a)
	} else {
		s.Outages.Refused(objectOf(r))
	}
	return &a.Fault
}

func (s *State) inject(what string, a *active) {
	if s.Injected != nil {
		s.Injected(what, a.Fault)
	}
}

// Describe is a request in one line: the verb and the object.
func Describe(r apirequest.Request) string {
	path, name := r.Resource, r.Name
	if r.Subresource != "" {
		path += "/" + r.Subresource
	}
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Verb + " " + path + " " + name
}

func objectOf(r apirequest.Request) Object { return Object{r.Resource, r.Namespace, r.Name} }

// noteFaults notes what faults have begun or ended. Cut are the resources whose watches break.
func (s *State) noteFaults(cut func(resource string) bool) {
	if stopped := s.stopped(); stopped != s.wasStopped {
		s.wasStopped = stopped
		s.note(Watch{}, stopped)
		s.Outages.CaughtUp(Watch{})
	}
	for watch, hidden := range s.watched {
		if hides := s.hides(watch.Resource); hides != hidden || cut(watch.Resource) {
			s.watched[watch] = hides
			s.note(watch, hides)
		}
	}
}

// note notes that a fault of a watch lasts, or has just ended.
func (s *State) note(watch Watch, lasts bool) {
	if lasts {
		s.Outages.Blind(watch, time.Time{})
	} else {
		s.Outages.Blind(watch, time.Now())
	}
}

// stopped reports whether nothing arrives in time that the process sends.
func (s *State) stopped() bool {
	return slices.ContainsFunc(s.active, func(a *active) bool {
		return a.Word == "pause" || a.Word == "down" || a.Word == "silent" || a.Word == "slow" && a.Resource == ""
	})
}

// hides reports whether events of a resource are held back.
func (s *State) hides(resource string) bool {
	d, _ := s.longest(resource, "delay", "lag")
	return s.stopped() || s.frozen(resource) != nil || d > 0
}

func (s *State) frozen(resource string) *active {
	for _, a := range s.active {
		if a.Word == "pause" || a.Word == "silent" || a.Word == "freeze" && (a.Resource == "" || a.Resource == resource) {
			return a
		}
	}
	return nil
}

// Channel is the way of one watch.
type Channel struct {
	state    *State
	watch    Watch
	epochs   [2]int // how often watches had been cut when it began: of all resources, and of its own
	expiries [2]int
}

// Watches notes that the process begins a watch, and returns the way of its events.
func (s *State) Watches(watch Watch) *Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.watched[watch]; !known {
		s.watched[watch] = s.hides(watch.Resource)
		if s.watched[watch] {
			s.note(watch, true)
		}
	}
	return &Channel{s, watch, both(s.epochs, watch), both(s.expiries, watch)}
}

func both(counts map[string]int, watch Watch) [2]int {
	return [2]int{counts[""], counts[watch.Resource]}
}

// Due returns when an event gets through that the server has sent at a time. A zero time means: not before the state changes.
func (c *Channel) Due(sent time.Time) time.Time {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.frozen(c.watch.Resource) != nil {
		return time.Time{}
	}
	d, _ := s.longest(c.watch.Resource, "delay", "lag")
	return sent.Add(d)
}

// Arrives notes that an event has arrived, for who is told what was injected.
func (c *Channel) Arrives(what string) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.frozen(c.watch.Resource)
	if a == nil {
		_, a = s.longest(c.watch.Resource, "delay", "lag")
	}
	if a != nil {
		s.inject("event "+c.watch.Resource+" "+what, a)
	}
}

// CaughtUp notes that the watch has shown all that there is.
func (c *Channel) CaughtUp() {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if c.cut() == nil {
		c.state.Outages.CaughtUp(c.watch)
	}
}

// Changed is closed when an answer of Due may have changed, or the channel is cut.
func (c *Channel) Changed() <-chan struct{} {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.changed
}

// ErrExpired says that a watch has ended and cannot go on where it was.
var ErrExpired = errors.New("the watch is too old")

// Cut returns an error when the connection is broken.
func (c *Channel) Cut() error {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.cut()
}

func (c *Channel) cut() error {
	switch s := c.state; {
	case both(s.expiries, c.watch) != c.expiries:
		return ErrExpired
	case s.dead, both(s.epochs, c.watch) != c.epochs:
		return io.ErrUnexpectedEOF
	}
	return nil
}
