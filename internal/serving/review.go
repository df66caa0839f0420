package serving

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// mostAnswers is how many answers of a kind are remembered.
const mostAnswers = 4096

// memory remembers answers of the API server. It knows questions, some of which are secrets, only by a digest that nobody
// outside the process can make.
type memory[A any] struct {
	answers *cache.LRUExpireCache
	salt    [32]byte
}

func newMemory[A any]() (*memory[A], error) {
	m := &memory[A]{answers: cache.NewLRUExpireCache(mostAnswers)}
	_, err := rand.Read(m.salt[:])
	return m, err
}

func (m *memory[A]) key(question []byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(m.salt[:], question))
}

func (m *memory[A]) get(key [sha256.Size]byte) (answer A, ok bool) {
	found, ok := m.answers.Get(key)
	if !ok {
		return answer, false
	}
	return found.(A), true
}

func (m *memory[A]) put(key [sha256.Size]byte, answer A, ttl time.Duration) {
	if ttl > 0 {
		m.answers.Add(key, answer, ttl)
	}
}

// reviewer asks the API server about clients.
type reviewer struct {
	timeout  time.Duration // for all tries together
	backoff  wait.Backoff  // between tries
	logger   klog.Logger
	problems *problems
}

func newReviewer(timeout time.Duration, logger klog.Logger, p *problems) reviewer {
	return reviewer{timeout, wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4}, logger, p}
}

var errNotAsked = errors.New("no time to ask")

// ask asks until there is an answer, an error that will not pass, or no time. What it asks for, the kind, is for the log.
func ask[A any](ctx context.Context, r reviewer, kind string, question func(context.Context) (A, error)) (answer A, err error) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = errNotAsked
	_ = wait.ExponentialBackoffWithContext(limited, r.backoff, func(ctx context.Context) (bool, error) {
		answer, err = question(ctx)
		return err == nil || !passes(err), nil
	})
	switch {
	case err == nil:
		r.problems.over(kind)
	case ctx.Err() == nil: // or else nobody waits for the answer any more
		r.problems.report(r.logger, kind, err, "Cannot ask the API server about a client", "kind", kind)
	}
	return answer, err
}

// passes tells whether another try may be answered.
func passes(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err)
}
