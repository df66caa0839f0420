package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// refusedFor is how long the API server must have refused something for that to be no passing state, as while it starts.
	refusedFor = 10 * time.Second
	// refusalAge is how old the last refusal may be; it is longer than the longest pause between two tries (CI-13).
	refusalAge = 2 * time.Minute
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
	status      string // as "403 Forbidden"
}

// Wrap is a wrapper for the transport of a client whose refusals count.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper { return &refusalObserver{next, r} }

// Of returns an error that names what has been refused about the resource (with its group, as "pods" or "deployments.apps") for a while and until now.
func (r *Refusals) Of(resource string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for q, f := range r.seen {
		if q.resource == resource && f.last.Sub(f.first) >= refusedFor && time.Since(f.last) <= refusalAge {
			all = append(all, fmt.Errorf("the API server refuses to let this process %s %s: %s", q.verb, q.resource, f.status))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

func (r *Refusals) note(q question, answer *http.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
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
	if r.seen == nil {
		r.seen = map[question]refusal{}
	}
	r.seen[q] = f
}

type refusalObserver struct {
	next     http.RoundTripper
	refusals *Refusals
}

// WrappedRoundTripper lets client-go find the transport inside.
func (o *refusalObserver) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements http.RoundTripper.
func (o *refusalObserver) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err == nil {
		o.refusals.note(questionOf(r), answer)
	}
	return answer, err
}

// questionOf takes a request for a list, or for an object in a namespace, to pieces.
func questionOf(r *http.Request) question {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	q := question{verb: "list", resource: parts[len(parts)-1]}
	named := false
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		q.resource, named = parts[i+2], i+3 < len(parts)
	}
	if i := slices.Index(parts, "apis"); i >= 0 && i+1 < len(parts) {
		q.resource += "." + parts[i+1]
	}
	switch {
	case r.Method == http.MethodPost:
		q.verb = "create"
	case r.Method == http.MethodDelete:
		q.verb = "delete"
	case r.Method != http.MethodGet:
		q.verb = "update"
	case r.URL.Query().Get("watch") != "":
		q.verb = "watch"
	case named:
		q.verb = "get"
	}
	return q
}
