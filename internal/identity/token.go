package identity

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

const (
	tokenTries     = 4                      // with waits of 0.5s, 1s and 2s between them (CI-22)
	tokenFirstWait = 500 * time.Millisecond // doubled each time
	tokenMinimum   = 10 * time.Minute       // shorter lifetimes count as this (CI-22)
	tokenTimeout   = 10 * time.Second       // of one try, so that a server that hangs costs a try, not all time
	tokenPause     = 10 * time.Second       // after a renewal that failed while the old token was still good
)

// token is a bearer token and when it came. It is never changed.
type token struct {
	value   string
	fetched time.Time
	renew   time.Duration // after fetched, ask for a new one
	life    time.Duration // after fetched, do not use it any more
}

// age is how old the token is, by the clock that says more: the monotonic one stands still while a machine is
// suspended, and the other one may be set back.
func (t *token) age(now time.Time) time.Duration {
	return max(now.Sub(t.fetched), now.Round(0).Sub(t.fetched.Round(0)))
}

// tokenSource keeps the token of one service account: fetched when first needed, renewed when 80 % of its lifetime is
// used, dropped when the server refuses it (CI-22). It is safe for concurrent use, and no goroutine runs for it: the
// request that needs a token fetches it, and the others wait as long as their own contexts let them.
type tokenSource struct {
	// account is the name of the ServiceAccount that tokens are asked for.
	account string
	request func(ctx context.Context) (value string, lifetime time.Duration, err error)
	// current is the token in use; nil before the first one.
	current atomic.Pointer[token]
	turn    chan struct{} // has room for one: who put it in may fetch
}

// newTokenSource returns a source without a token. The function asks for one.
func newTokenSource(account string, request func(context.Context) (string, time.Duration, error)) *tokenSource {
	return &tokenSource{account: account, request: request, turn: make(chan struct{}, 1)}
}

// get returns a token to use now.
func (s *tokenSource) get(ctx context.Context) (*token, error) {
	if t := s.current.Load(); t != nil {
		switch age := t.age(time.Now()); {
		case age < t.renew:
			return t, nil
		case age < t.life:
			return s.renewed(ctx, t), nil
		}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a token of service account %s: %w", s.account, context.Cause(ctx))
	}
	if t := s.current.Load(); t != nil && t.age(time.Now()) < t.renew {
		return t, nil // another request has fetched it meanwhile
	}
	return s.fetch(ctx)
}

// renewed returns a new token, or the old one, which is still good: then nobody needs to wait for another's attempt,
// and a failure is no reason to fail the request, nor to try again with each one that follows.
func (s *tokenSource) renewed(ctx context.Context, old *token) *token {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return old
	}
	if t := s.current.Load(); t != nil && t != old {
		return t
	}
	t, err := s.try(ctx)
	if err == nil {
		return t
	}
	if ctx.Err() != nil {
		return old // the request ended, which says nothing about the server
	}
	later := *old
	later.renew = old.age(time.Now()) + tokenPause
	s.current.CompareAndSwap(old, &later) // unless it was dropped meanwhile
	klog.FromContext(ctx).Error(err, "Could not renew a service account token, using the old one", "serviceAccount",
		s.account)
	return &later
}

// fetch gets a token, in several tries. The caller has the turn.
func (s *tokenSource) fetch(ctx context.Context) (*token, error) {
	for try, wait := 1, tokenFirstWait; ; try, wait = try+1, 2*wait {
		t, err := s.try(ctx)
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("fetching a token of service account %s: %w", s.account, context.Cause(ctx))
		case try == tokenTries:
			// Not wrapped, on purpose: the reader would take an API error in it for the answer to its own request. "Not
			// found" of the account must not read as "the pod is already gone".
			return nil, fmt.Errorf("no token of service account %s after %d tries: %v", s.account, try, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// try asks for a token once and keeps it.
func (s *tokenSource) try(ctx context.Context) (*token, error) {
	// The request that waits for the token ends this one, but its values stay behind: among them can be hooks that
	// trace the connection of that request alone.
	own, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.FromContext(ctx)), tokenTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()

	now := time.Now() // before the request, so that the token is younger than we think, never older
	value, lifetime, err := s.request(own)
	if err != nil {
		return nil, err
	}
	lifetime = max(lifetime, tokenMinimum)
	t := &token{value: value, fetched: now, renew: lifetime * 8 / 10, life: lifetime}
	s.current.Store(t)
	return t, nil
}

// drop forgets a token that the server has refused. A newer one stays.
func (s *tokenSource) drop(refused *token) {
	if t := s.current.Load(); t != nil && t.value == refused.value {
		s.current.CompareAndSwap(t, nil)
	}
}

// bearer adds the token to each request.
type bearer struct {
	next   http.RoundTripper
	source *tokenSource
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := b.source.get(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+t.value)
	answer, err := b.next.RoundTrip(req)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		b.source.drop(t) // this request fails with 401; the next one fetches a new token
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport inside.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
