package access

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

	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// mostAnswers is how many answers of a kind are remembered.
const mostAnswers = 4096

// memory remembers answers of the API server. It knows questions, some of which are secrets, only by a digest that
// nobody outside the process can make.
type memory[A any] struct {
	answers *cache.LRUExpireCache
	salt    [32]byte
}

// newMemory returns an empty one, with a salt of its own, so that nobody can choose questions with the same
// key.
func newMemory[A any]() (*memory[A], error) {
	m := &memory[A]{answers: cache.NewLRUExpireCache(mostAnswers)}
	_, err := rand.Read(m.salt[:])
	return m, err
}

// key is a digest of a question: it takes the same room, however long the question is.
func (m *memory[A]) key(question []byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(m.salt[:], question))
}

// get returns an answer that still counts.
func (m *memory[A]) get(key [sha256.Size]byte) (answer A, ok bool) {
	found, ok := m.answers.Get(key)
	if !ok {
		return answer, false
	}
	return found.(A), true
}

// put remembers an answer for a time; not at all if that is zero.
func (m *memory[A]) put(key [sha256.Size]byte, answer A, ttl time.Duration) {
	if ttl > 0 {
		m.answers.Add(key, answer, ttl)
	}
}

// Reviewer asks the API server about clients.
type Reviewer struct {
	timeout  time.Duration // for all tries together
	backoff  wait.Backoff  // between tries
	problems *reply.Problems
}

// NewReviewer returns a Reviewer that tries for that long to get an answer.
func NewReviewer(timeout time.Duration, p *reply.Problems) Reviewer {
	return Reviewer{timeout, wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4}, p}
}

var errNotAsked = errors.New("no time to ask")

// ask asks until there is an answer, an error that will not pass, or no time. What it asks for, the kind, is for the
// log.
func ask[A any](ctx context.Context, r Reviewer, kind string, question func(context.Context) (A, error)) (answer A,
	err error) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = errNotAsked
	_ = wait.ExponentialBackoffWithContext(limited, r.backoff, func(ctx context.Context) (bool, error) {
		answer, err = question(ctx)
		return err == nil || !passes(err), nil
	})
	switch {
	case err == nil:
		r.problems.Over(kind)
	case ctx.Err() == nil: // or else nobody waits for the answer any more
		r.problems.Report(kind, err, "Cannot ask the API server about a client", "kind", kind)
	}
	return answer, err
}

// passes reports whether another try may be answered.
func passes(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err)
}
