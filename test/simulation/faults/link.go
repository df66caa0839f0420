// Package faults is the network between a manager and the API server, with everything that can go wrong in it.
package faults

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/test/oracle/outage"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// Link is the way of one process to the server and back.
type Link struct {
	// Died is called, once, when the process dies of a fault.
	Died func()
	// GaveUp is called when the process gives up waiting for an answer that a fault has lost.
	GaveUp func()

	mu      sync.Mutex
	random  *rand.Rand
	changed chan struct{} // closed when anything below changes

	dead    bool
	paused  bool
	down    bool
	latency time.Duration            // of a request, each way, at most
	delays  map[string]time.Duration // of events, by resource
	lags    map[string]time.Duration // of the server's caches, by resource
	frozen  map[string]int           // how many faults hold events back, by resource
	epochs  map[string]int           // how often watches were cut, by resource
	refuse  []Refusal
	crash   *Crash
	writes  int // that have left the process

	usual      time.Duration         // the latency without faults
	watched    map[outage.Watch]bool // those of the process, and whether their events are held back
	wasStopped bool
	outages    *outage.Log
}

// Refusal lets requests fail.
type Refusal struct {
	Left     int    // how many
	Code     int    // of the answer; 0 breaks the connection, -1 never answers
	After    bool   // the request is carried out nevertheless
	Resource string // only of this resource; empty for all
	Verb     string // only this verb; empty for all writes
}

// Crash lets the process die at a write.
type Crash struct {
	Writes int  // that are still let through
	After  bool // the last one is carried out, and its answer lost
}

var (
	errReset   = &refusal{syscall.ECONNRESET}
	errRefused = &refusal{syscall.ECONNREFUSED}
	errDead    = errors.New("the process has died")
)

// refusal is an error of the connection.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// New returns a link without faults, on which a request takes up to latency each way.
func New(seed uint64, latency time.Duration) *Link {
	return &Link{
		random: rand.New(rand.NewPCG(seed, 1)), changed: make(chan struct{}), latency: latency, usual: latency,
		delays: map[string]time.Duration{}, lags: map[string]time.Duration{}, frozen: map[string]int{}, epochs: map[string]int{},
		watched: map[outage.Watch]bool{}, outages: outage.New(aftermath),
	}
}

// change alters the link and lets everybody know.
func (l *Link) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := maps.Clone(l.epochs)
	do()
	l.noteFaults(func(resource string) bool {
		return l.epochs[""] != before[""] || l.epochs[resource] != before[resource]
	})
	close(l.changed)
	l.changed = make(chan struct{})
}

// Kill lets the process die: nothing that it sends arrives from here on.
func (l *Link) Kill() { l.change(l.die) }

func (l *Link) die() {
	if !l.dead {
		l.dead = true
		if l.Died != nil {
			l.Died()
		}
	}
}

// Pause stops the process, as SIGSTOP does, or lets it go on. What it would have sent meanwhile is lost.
func (l *Link) Pause(to bool) { l.change(func() { l.paused = to }) }

// Down makes the server unreachable, or reachable again.
func (l *Link) Down(to bool) {
	l.change(func() {
		l.down = to
		l.epochs[""]++
	})
}

// Slow sets how long a request takes each way, at most.
func (l *Link) Slow(latency time.Duration) { l.change(func() { l.latency = latency }) }

// Delay lets events of a resource come later; empty for all resources.
func (l *Link) Delay(resource string, d time.Duration) { l.change(func() { l.delays[resource] = d }) }

// LagBehind leads to a server whose cache of a resource is behind by a time; empty for all resources. Events come as late, and
// requests that are content with any version are answered with the state of that time.
func (l *Link) LagBehind(resource string, d time.Duration) { l.change(func() { l.lags[resource] = d }) }

// Lag implements apiserver.Lagging.
func (l *Link) Lag(resource string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lag(resource)
}

func (l *Link) lag(resource string) time.Duration { return max(l.lags[resource], l.lags[""]) }

// Freeze holds events of a resource back, or ends one such fault.
func (l *Link) Freeze(resource string, to bool) {
	l.change(func() {
		if to {
			l.frozen[resource]++
		} else {
			l.frozen[resource]--
		}
	})
}

// Cut breaks the watches of a resource.
func (l *Link) Cut(resource string) { l.change(func() { l.epochs[resource]++ }) }

// Refuse lets requests fail.
func (l *Link) Refuse(r Refusal) { l.change(func() { l.refuse = append(l.refuse, r) }) }

// CrashAt lets the process die at a write to come.
func (l *Link) CrashAt(c Crash) { l.change(func() { l.crash = &c }) }

// Writes is how many writes have left the process, those of events and leases among them.
func (l *Link) Writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// Heal ends all faults but death.
func (l *Link) Heal(latency time.Duration) {
	l.change(func() {
		l.paused, l.down, l.latency, l.refuse, l.crash = false, false, latency, nil, nil
		clear(l.delays)
		clear(l.lags)
		clear(l.frozen)
	})
}

// Send implements apiserver.Network.
func (l *Link) Send(ctx context.Context, r apiserver.Request) error {
	defer l.outages.Took(r.Resource, time.Now())
	held, err := l.pass(ctx)
	if err != nil {
		return err
	}
	if held && r.Write() {
		return errReset // a process that stands still sends nothing
	}
	if err := l.travel(ctx); err != nil {
		return err
	}
	return l.deliver(ctx, l.leave(r))
}

// leave lets a request leave the process, if nothing happens to it.
func (l *Link) leave(r apiserver.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if c := l.crash; c != nil && r.Write() {
		c.Writes--
		if c.Writes < 0 && !c.After {
			l.die()
			return errDead
		}
	}
	if r.Write() {
		l.writes++
	}
	return l.fails(r, false)
}

// Receive implements apiserver.Network.
func (l *Link) Receive(ctx context.Context, r apiserver.Request, _ error) error {
	defer l.outages.Took(r.Resource, time.Now())
	l.mu.Lock()
	if c := l.crash; c != nil && r.Write() && c.Writes < 0 {
		l.die() // its answer arrives nowhere, see pass
	}
	err := l.fails(r, true)
	if err == nil {
		l.outages.Answered(objectOf(r))
	}
	l.mu.Unlock()
	if err != nil {
		return l.deliver(ctx, err)
	}
	if err := l.travel(ctx); err != nil {
		return err
	}
	_, err = l.pass(ctx)
	return err
}

// deliver is the way of a failure: one that is no answer takes as long as the client waits.
func (l *Link) deliver(ctx context.Context, err error) error {
	if !errors.Is(err, errSilence) {
		return err
	}
	<-ctx.Done()
	if l.GaveUp != nil {
		l.GaveUp()
	}
	return ctx.Err()
}

var errSilence = errors.New("no answer")

// pass waits while the process stands still, and reports whether it did. It fails when there is no way.
func (l *Link) pass(ctx context.Context) (held bool, err error) {
	for {
		l.mu.Lock()
		dead, down, paused, changed := l.dead, l.down, l.paused, l.changed
		l.mu.Unlock()
		switch {
		case dead:
			return held, errDead
		case !paused && down:
			return held, errRefused
		case !paused:
			return held, nil
		}
		held = true
		select {
		case <-changed:
		case <-ctx.Done():
			return held, ctx.Err()
		}
	}
}

// travel is the time that a message takes.
func (l *Link) travel(ctx context.Context) error {
	l.mu.Lock()
	d := time.Duration(l.random.Int64N(int64(l.latency) + 1))
	l.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fails returns the error that a fault has in store for a request.
func (l *Link) fails(r apiserver.Request, after bool) error {
	for i := range l.refuse {
		f := &l.refuse[i]
		if f.Left == 0 || f.After != after || f.Resource != "" && f.Resource != r.Resource || !f.verb(r) {
			continue
		}
		f.Left--
		l.outages.Refused(objectOf(r))
		return f.error(r)
	}
	return nil
}

// verb reports whether the fault is for such a request. Leases and events are spared unless they are named.
func (f *Refusal) verb(r apiserver.Request) bool {
	if f.Resource == "" && (r.Resource == "leases" || r.Resource == "events") {
		return false
	}
	if f.Code == 409 && r.Verb != "update" && r.Verb != "patch" {
		return false // nothing else is refused for its version
	}
	return f.Verb == r.Verb || f.Verb == "" && r.Write()
}

func (f *Refusal) error(r apiserver.Request) error {
	resource := schema.GroupResource{Resource: r.Resource}
	switch f.Code {
	case 0:
		return errReset
	case -1:
		return errSilence
	case 409:
		return apierrors.NewConflict(resource, r.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case 429:
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	case 500:
		return apierrors.NewInternalError(errors.New("injected"))
	case 503:
		return apierrors.NewServiceUnavailable("injected")
	case 504:
		return apierrors.NewTimeoutError("request did not complete within the allowed duration", 0)
	}
	return apierrors.NewGenericServerResponse(f.Code, strings.ToUpper(r.Verb), resource, r.Name, "injected", 0, true)
}
