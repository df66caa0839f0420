package informers

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

// quiet is how long a watch must have gone without an error for the next one to be news. It is longer than the longest
// pause between two tries (CI-13).
const quiet = 2 * time.Minute

// SetWatchErrorHandler lets the informer log that it cannot list or watch in one line each for the 1st, 2nd, 4th, 8th, ...
// failure in a row, for all caches fail at once when the API server does. It must be called before the informer starts.
func SetWatchErrorHandler(informer cache.SharedIndexInformer) error {
	var t trouble
	return informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		t.log(klog.FromContext(ctx).WithValues("type", r.TypeDescription()), err)
	})
}

// trouble counts the failures of one informer.
type trouble struct {
	of string // what is listed and watched, for the log

	mu       sync.Mutex
	failures int
	last     time.Time
}

func (t *trouble) log(logger klog.Logger, err error) {
	switch {
	case errors.Is(err, io.EOF): // an ordinary end
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.ErrUnexpectedEOF):
		logger.V(4).Info("A watch has ended, begins another one", "err", err.Error())
	default:
		switch n, news := t.count(time.Now()); {
		case !news:
		case n > 1 && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)): // which will not pass by itself
			logger.Error(err, "A cache cannot be kept up to date, the API server refuses it", "failures", n)
		default:
			logger.Info("A cache cannot be kept up to date, tries again", "failures", n, "err", err.Error())
		}
	}
}

// count notes one more failure, and returns how many there were in a row and whether that is worth a line.
func (t *trouble) count(now time.Time) (n int, news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.last) > quiet {
		t.failures = 0
	}
	t.failures++
	t.last = now
	return t.failures, t.failures&(t.failures-1) == 0
}
