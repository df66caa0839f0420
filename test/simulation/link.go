package simulation

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/lockorder"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// link is the network between one process and the server, with the faults of its state.
type link struct {
	*faults.State
	died   func() // called once, when the process dies of a fault
	gaveUp func() // called when the process gives up waiting for an answer that a fault has lost
	lost   func() // called when an event that the process records was not stored, or it cannot know

	latency time.Duration // of a request, each way, at most, without faults
	mu      sync.Mutex
	random  *rand.Rand
	writes  []string // verbs and resources of those that a crash counts
}

var (
	errReset   = &refusal{syscall.ECONNRESET}
	errRefused = &refusal{syscall.ECONNREFUSED}
	errSilence = errors.New("no answer")
	errDead    = errors.New("the process has died")
)

// refusal is an error of the connection.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// aftermath is how long after the end of a fault a process may not have caught up yet.
const aftermath = 40 * time.Second

// newLink returns a link without faults, on which a request takes up to latency each way.
func newLink(seed uint64, latency time.Duration) *link {
	return &link{State: faults.New(aftermath), latency: latency, random: rand.New(rand.NewPCG(seed, 1)), died: func() {}, gaveUp: func() {},
		lost: func() {}}
}

func ofNetwork(r apiserver.Request) apirequest.Request {
	return apirequest.Request{Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
}

// Send implements apiserver.Network.
func (l *link) Send(ctx context.Context, network apiserver.Request) (err error) {
	r := ofNetwork(network)
	defer func() { l.noteLost(r, err) }()
	lockorder.MayWait(r.Verb + " " + r.Resource)
	defer l.Outages.Took(r.Resource, time.Now())
	paused, err := l.pass(ctx)
	if err != nil {
		return err
	}
	if paused && network.Write() {
		return errReset // a process that stands still sends nothing
	}
	if err := l.travel(ctx, r); err != nil {
		return err
	}
	if l.Way().Dead {
		return errDead
	}
	l.note(r)
	return l.suffer(ctx, r, l.Sends(r))
}

// note remembers a write of those that a crash counts.
func (l *link) note(r apirequest.Request) {
	if !faults.IsWork(r) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/"))
}

func (l *link) sentWrites() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

// Receive implements apiserver.Network.
func (l *link) Receive(ctx context.Context, network apiserver.Request, answer error) (err error) {
	r := ofNetwork(network)
	defer func() { l.noteLost(r, cmp.Or(err, answer)) }()
	defer l.Outages.Took(r.Resource, time.Now())
	f := l.Hears(r)
	if f != nil && f.Word != "crash" {
		return l.suffer(ctx, r, f)
	}
	if f != nil {
		l.die() // its answer arrives nowhere, see pass
	}
	if err := l.travel(ctx, r); err != nil {
		return err
	}
	_, err = l.pass(ctx)
	return err
}

// noteLost looks for events that were not stored.
func (l *link) noteLost(r apirequest.Request, err error) {
	if err != nil && r.Resource == "events" {
		l.lost()
	}
}

func (l *link) die() {
	l.Kill()
	l.died()
}

// suffer returns the error that a fault has for a request. One that is no answer takes as long as the client waits.
func (l *link) suffer(ctx context.Context, r apirequest.Request, f *faults.Fault) error {
	switch {
	case f == nil:
		return nil
	case f.Word == "crash":
		l.die()
		return errDead
	}
	err := refused(r, f.Code)
	if !errors.Is(err, errSilence) {
		return err
	}
	<-ctx.Done()
	l.gaveUp()
	return ctx.Err()
}

// pass waits while the process stands still or nothing gets through, and reports whether it stood still. It fails when there is no
// way.
func (l *link) pass(ctx context.Context) (paused bool, err error) {
	for {
		way := l.Way()
		switch {
		case way.Dead:
			return paused, errDead
		case way.Paused:
			paused = true
		case way.Down:
			return paused, errRefused
		case !way.Silent:
			return paused, nil
		}
		select {
		case <-way.Changed:
		case <-ctx.Done():
			return paused, ctx.Err()
		}
	}
}

// travel is the time that a message takes.
func (l *link) travel(ctx context.Context, r apirequest.Request) error {
	return l.take(ctx, max(l.latency, l.Latency(r)))
}

// Webhook implements apiserver.Network.
func (l *link) Webhook(network apiserver.Request) func(context.Context) error {
	r := ofNetwork(network)
	most := l.Waits(r)
	if most == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		defer l.Outages.Took(r.Resource, time.Now())
		return l.take(ctx, most)
	}
}

// take takes up to some time.
func (l *link) take(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(l.draw(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) draw(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(most) + 1))
}

// refused is the error that a request meets instead of an answer.
func refused(r apirequest.Request, code int) error {
	resource := schema.GroupResource{Resource: r.Resource}
	switch code {
	case 0:
		return errReset
	case -1:
		return errSilence
	case 409:
		return apierrors.NewConflict(resource, r.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case 429:
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	case 500:
		return apierrors.NewInternalError(errors.New("injected"))
	case 503:
		return apierrors.NewServiceUnavailable("injected")
	case 504:
		return apierrors.NewTimeoutError("request did not complete within the allowed duration", 0)
	}
	return apierrors.NewGenericServerResponse(code, strings.ToUpper(r.Verb), resource, r.Name, "injected", 0, true)
}

// channel is the way of one watch.
type channel struct {
	*faults.Channel
	base time.Duration // that its events take at any rate
}

// Watching implements apiserver.Network.
func (l *link) Watching(r apiserver.Request) apiserver.Channel {
	return channel{l.Watches(faults.Watch{Resource: r.Resource, Selection: r.Selection}), l.draw(l.latency)}
}

// Due implements apiserver.Channel.
func (c channel) Due(e *apiserver.Event) time.Time { return c.Channel.Due(e.Time.Add(c.base)) }
