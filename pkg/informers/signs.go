package informers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Signs notes the signs of life of watches, as they come from the API server: bytes. A cache cannot tell: on a cluster at
// rest nothing changes in it for hours, while its watch is sent a bookmark every minute.
type Signs struct {
	mu         sync.Mutex
	byResource map[string]*Sign
}

// NewSigns returns an empty one.
func NewSigns() *Signs { return &Signs{byResource: map[string]*Sign{}} }

// Wrap is a wrapper for the transport of the informers' client. It is to see lists and watches of all namespaces only.
func (s *Signs) Wrap(next http.RoundTripper) http.RoundTripper { return &observer{next, s} }

// Of returns what has been seen of the resource, as "pods".
func (s *Signs) Of(resource string) *Sign {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byResource[resource] == nil {
		s.byResource[resource] = &Sign{}
	}
	return s.byResource[resource]
}

// Sign is what has been seen of the lists and watches of one resource.
type Sign struct {
	mu        sync.Mutex
	tried     time.Time // when a request was last begun or ended, whatever came of it; zero if none was
	first     time.Time // the first of these
	heard     time.Time // when the server last answered well, or went on to
	open      *answer   // the watch that is open; nil for none
	ends      time.Time // when the server was asked to end it
	bookmarks bool      // the server sends some, so a watch that is silent for long is none
}

// patience is how much longer than it was asked to a server may keep a watch open.
const patience = time.Minute

// Heard is when the server last sent something; zero if it never has.
func (s *Sign) Heard() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// Wedged returns an error if neither the server nor the client has done anything for longer than bound: the watch is open
// and silent, or there is none and none is tried. Tries that fail are no reason.
func (s *Sign) Wedged(bound time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since(s.tried, bound)
}

// Stale returns an error if the server has sent nothing for longer than bound, whatever the reason.
func (s *Sign) Stale(bound time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since(s.heard, bound)
}

// since compares the time that has passed with the bound. A server that was never seen to send bookmarks owes nothing
// while a watch is open, until it was to be ended. Before the first request there is nothing to say.
func (s *Sign) since(last time.Time, bound time.Duration) error {
	now := time.Now()
	if last = latest(last, s.first, s.heard); s.tried.IsZero() {
		return nil
	}
	silent := now.Sub(last)
	owes := s.open == nil || s.bookmarks || now.Sub(s.ends) > patience
	if silent <= bound || !owes {
		return nil
	}
	if s.open != nil {
		return fmt.Errorf("the watch is open, but nothing has come for %v", silent.Round(time.Second))
	}
	return fmt.Errorf("no watch is open, and nothing has come for %v", silent.Round(time.Second))
}

func latest(all ...time.Time) (last time.Time) {
	for _, t := range all {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// try is called under the lock when a request begins or ends.
func (s *Sign) try(now time.Time) {
	if s.tried = now; s.first.IsZero() {
		s.first = now
	}
}

// note changes the sign under its lock.
func (s *Sign) note(change func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(time.Now())
}

type observer struct {
	next  http.RoundTripper
	signs *Signs
}

// WrappedRoundTripper lets client-go find the transport inside.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, ok := resourceOf(r)
	if !ok {
		return o.next.RoundTrip(r)
	}
	s := o.signs.Of(resource)
	s.note(s.try)
	resp, err := o.next.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		s.note(s.try)
		return resp, err
	}
	a := &answer{ReadCloser: resp.Body, sign: s}
	s.note(func(now time.Time) {
		s.heard = now
		if lasts, watch := watches(r); watch {
			s.open, s.ends = a, now.Add(lasts)
		}
	})
	resp.Body = a
	return resp, nil
}

// resourceOf returns the resource that a request lists or watches: the last part of such a path.
func resourceOf(r *http.Request) (resource string, ok bool) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/api/v1/") && !strings.Contains(r.URL.Path, "/apis/") {
		return "", false
	}
	return r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], true
}

// watches tells whether a request is a watch, and for how long it is to last.
func watches(r *http.Request) (lasts time.Duration, ok bool) {
	query := r.URL.Query()
	ok, _ = strconv.ParseBool(query.Get("watch"))
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	return time.Duration(seconds) * time.Second, ok
}

// answer is a body whose bytes are signs of life.
type answer struct {
	io.ReadCloser
	sign *Sign
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.sign.note(func(now time.Time) {
		if n > 0 {
			a.sign.heard = now
		}
		if !a.sign.bookmarks {
			a.sign.bookmarks = hasBookmark(p[:n])
		}
		if err != nil {
			a.end(now)
		}
	})
	return n, err
}

// hasBookmark reports whether bytes of a watch have an event of that type, in protobuf or JSON. The one that ends the
// initial events (CI-12) does not count: it does not promise others.
func hasBookmark(b []byte) bool {
	return (bytes.Contains(b, []byte("\n\x08BOOKMARK")) || bytes.Contains(b, []byte(`"type":"BOOKMARK"`))) &&
		!bytes.Contains(b, []byte("k8s.io/initial-events-end"))
}

func (a *answer) Close() error {
	a.sign.note(a.end)
	return a.ReadCloser.Close()
}

// end is called under the sign's lock.
func (a *answer) end(now time.Time) {
	if a.sign.open == a {
		a.sign.open = nil
		a.sign.try(now)
	}
}
