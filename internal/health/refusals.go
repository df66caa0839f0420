package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// refusedFor is how long the API server must have refused something for that to be no passing state, as while it
	// starts.
	refusedFor = 10 * time.Second
	// refusalAge is how old the last refusal may be; it is longer than the longest pause between two tries (CI-13).
	refusalAge = 2 * time.Minute
	// refusalLogEvery is how often a refusal that continues is logged.
	refusalLogEvery = 10 * time.Minute
)

// Refusals are what the API server refuses for want of a valid identity (401) or a right (403). The zero value is
// ready for use.
type Refusals struct {
	mu   sync.Mutex
	seen map[request]refusal
}

// request is a kind of requests, as "list", "pods".
type request struct{ verb, resource string }

// refusal is that of one kind of requests: since when, and until when at least.
type refusal struct {
	first, last time.Time
	logged      time.Time
	status      string // as "403 Forbidden"
}

// lasts reports whether the refusal is no passing state.
func (f refusal) lasts() bool {
	return f.last.Sub(f.first) >= refusedFor && time.Since(f.last) <= refusalAge
}

// Of returns an error that names what has been refused about the resource (with its group, as "pods" or
// "deployments.apps") for a while and until now.
func (r *Refusals) Of(resource string) error {
	return r.those(func(q request) bool { return q.resource == resource })
}

// Any is Of for all resources.
func (r *Refusals) Any() error { return r.those(func(request) bool { return true }) }

// Count returns how many kinds of requests, as "create pods", Any is about.
func (r *Refusals) Count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.seen {
		if f.lasts() {
			n++
		}
	}
	return n
}

// those returns an error about the refusals that are wanted and last, nil if there are none.
func (r *Refusals) those(wanted func(request) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for q, f := range r.seen {
		if wanted(q) && f.lasts() {
			all = append(all,
				fmt.Errorf("the API server refuses to let this process %s %s: %s", q.verb, q.resource, f.status))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

// Refused notes that a request was refused with that status, and logs a refusal that lasts.
func (r *Refusals) Refused(ctx context.Context, verb, resource string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, q := time.Now(), request{verb, resource}
	f, again := r.seen[q]
	if !again || now.Sub(f.last) > refusalAge {
		f.first = now
	}
	f.last, f.status = now, fmt.Sprintf("%d %s", status, http.StatusText(status))
	if f.lasts() && now.Sub(f.logged) >= refusalLogEvery {
		f.logged = now
		klog.FromContext(ctx).Error(nil,
			"The API server lastingly refuses what a controller needs: its identity is not valid, or lacks a right",
			"verb", verb, "resource", resource, "status", f.status, "since", f.first)
	}
	if r.seen == nil {
		r.seen = map[request]refusal{}
	}
	r.seen[q] = f
}

// Allowed notes that a request was answered and not refused.
func (r *Refusals) Allowed(verb, resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, request{verb, resource})
}
