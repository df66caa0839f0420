package identity

import (
	"bytes"
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
	// refusedFor is how long the API server must have refused something for that to be no passing state, as while it starts.
	refusedFor = 10 * time.Second
	// refusalAge is how old the last refusal may be; it is longer than the longest pause between two tries (CI-13).
	refusalAge = 2 * time.Minute
	// refusalLogEvery is how often a refusal that goes on is logged.
	refusalLogEvery = 10 * time.Minute
)

// Refusals notes what the API server refuses for want of a valid identity (401) or a right (403). The zero value is ready for use.
type Refusals struct {
	mu   sync.Mutex
	seen map[question]refusal
}

// question is what is asked of the API server, as "list", "pods".
type question struct{ verb, resource string }

type refusal struct {
	first, last time.Time
	logged      time.Time
	status      string // as "403 Forbidden"
}

// lasts tells whether the refusal is no passing state.
func (f refusal) lasts() bool {
	return f.last.Sub(f.first) >= refusedFor && time.Since(f.last) <= refusalAge
}

// Wrap is a wrapper for the transport of a client whose refusals count.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper {
	return &refusalObserver{next, r, false}
}

// WrapWrites is Wrap for a client of which only writes count: some of what it reads is served by others than the API server.
func (r *Refusals) WrapWrites(next http.RoundTripper) http.RoundTripper {
	return &refusalObserver{next, r, true}
}

// Of returns an error that names what has been refused about the resource (with its group, as "pods" or "deployments.apps") for a while and until now.
func (r *Refusals) Of(resource string) error {
	return r.those(func(q question) bool { return q.resource == resource })
}

// Any is Of for all resources.
func (r *Refusals) Any() error { return r.those(func(question) bool { return true }) }

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

func (r *Refusals) those(wanted func(question) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for q, f := range r.seen {
		if wanted(q) && f.lasts() {
			all = append(all, fmt.Errorf("the API server refuses to let this process %s %s: %s", q.verb, q.resource, f.status))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

// note remembers whether the question was refused, and logs a refusal that lasts.
func (r *Refusals) note(ctx context.Context, q question, answer *http.Response) {
	is := refused(q, answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !is {
		delete(r.seen, q)
		if q.verb == "watch" { // which may bring what would else be listed
			delete(r.seen, question{"list", q.resource})
		}
		return
	}
	now := time.Now()
	f, again := r.seen[q]
	if !again || now.Sub(f.last) > refusalAge {
		f.first = now
	}
	f.last, f.status = now, fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if f.lasts() && now.Sub(f.logged) >= refusalLogEvery {
		f.logged = now
		klog.FromContext(ctx).Error(nil, "The API server lastingly refuses what a controller needs: its identity is not valid, or lacks a right",
			"verb", q.verb, "resource", q.resource, "status", f.status, "since", f.first)
	}
	if r.seen == nil {
		r.seen = map[question]refusal{}
	}
	r.seen[q] = f
}

// refused tells whether an answer says that the identity is not valid or lacks a right. Admission also answers 403 to writes, as when a
// quota is exhausted, which is about the object: only the text tells the two apart.
func refused(q question, answer *http.Response) bool {
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return true
	case answer.StatusCode != http.StatusForbidden:
		return false
	case q.verb == "get" || q.verb == "list" || q.verb == "watch":
		return true
	}
	text := take(answer)
	return bytes.Contains(text, []byte("is forbidden: User ")) && bytes.Contains(text, []byte(" cannot "))
}

type refusalObserver struct {
	next     http.RoundTripper
	refusals *Refusals
	writes   bool // only
}

// WrappedRoundTripper lets client-go find the transport inside.
func (o *refusalObserver) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements http.RoundTripper.
func (o *refusalObserver) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err == nil && !(o.writes && r.Method == http.MethodGet) {
		o.refusals.note(r.Context(), questionOf(r), answer)
	}
	return answer, err
}

// questionOf takes a request to pieces. The names of objects are no part of it.
func questionOf(r *http.Request) question {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if i := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" }); i > 0 {
		parts = parts[i:] // the server is behind a path
	}
	group := ""
	switch {
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = "."+parts[1], parts[3:]
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	q := question{verb: "list", resource: parts[0] + group}
	if len(parts) > 2 {
		q.resource += "/" + strings.Join(parts[2:], "/")
	}
	switch {
	case r.Method == http.MethodPost:
		q.verb = "create"
	case r.Method == http.MethodDelete:
		q.verb = "delete"
	case r.Method == http.MethodPatch:
		q.verb = "patch"
	case r.Method != http.MethodGet:
		q.verb = "update"
	case r.URL.Query().Get("watch") != "":
		q.verb = "watch"
	case len(parts) > 1:
		q.verb = "get"
	}
	return q
}
