package listwatch

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// resetAfter is how long there must have been no error for the count of failures to begin anew. It is longer than the
// longest pause between two attempts (CI-13).
const resetAfter = 2 * time.Minute

// SetWatchErrorHandler lets the informer log errors of lists and watches in one line each, and only the 1st, 2nd,
// 4th, 8th, ... failure in a row, because all caches fail at once when the API server does. It must be called before
// the informer starts.
func SetWatchErrorHandler(informer cache.SharedIndexInformer) error {
	var limiter errorLimiter
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		limiter.log(klog.FromContext(ctx).WithValues("type", r.TypeDescription()), err)
	})
}

// errorLimiter logs the errors of one informer at a limited rate.
type errorLimiter struct {
	mu sync.Mutex
	// failures are those in a row, of which ever fewer are logged.
	failures int
	last     time.Time
}

// log logs an error of a watch, unless it is an ordinary end or one of many.
func (l *errorLimiter) log(logger klog.Logger, err error) {
	switch {
	case errors.Is(err, io.EOF): // an ordinary end
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.ErrUnexpectedEOF):
		logger.V(4).Info("A watch has ended, begins another one", "err", err.Error())
	default:
		switch n, log := l.count(time.Now()); {
		case !log:
		case n > 1 && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)): // which will not pass by itself
			logger.Error(err, "A cache cannot be kept up to date, the API server refuses it", "failures", n)
		default:
			logger.Info("A cache cannot be kept up to date, tries again", "failures", n, "err", err.Error())
		}
	}
}

// count notes one more failure, and returns how many there were in a row and whether to log this one.
func (l *errorLimiter) count(now time.Time) (n int, log bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) > resetAfter {
		l.failures = 0
	}
	l.failures++
	l.last = now
	return l.failures, l.failures&(l.failures-1) == 0
}
