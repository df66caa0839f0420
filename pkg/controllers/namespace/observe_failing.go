package namespace

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A kind that cannot be listed, because a conversion webhook is dead or an aggregated API server is down, must not occupy the workers
// that other namespaces need.
const (
	listTimeout = 10 * time.Second
	slow        = time.Second      // a list that takes longer than this is not waited for by other namespaces
	retryAfter  = 10 * time.Second // a kind that could not be listed is not listed again before this
)

// failing remembers which kinds cannot be listed, for all namespaces. The zero value knows of none.
type failing struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*attempts
}

// attempts are what is known of the lists of one kind.
type attempts struct {
	running int
	since   time.Time // when the oldest of those running began; later, if it has ended meanwhile
	failed  time.Time // when the last list ended, if it failed
	err     error
}

// begin begins a list, unless the kind is known not to answer. The caller calls end when the list has ended.
func (f *failing) begin(kind schema.GroupVersionKind) (end func(error), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = map[schema.GroupVersionKind]*attempts{}
	}
	a := f.kinds[kind]
	if a == nil {
		a = &attempts{}
		f.kinds[kind] = a
	}
	switch now := time.Now(); {
	case a.running > 0 && now.Sub(a.since) > slow:
		return nil, fmt.Errorf("list %s: another list has not been answered for %s", kind.GroupKind(), slow)
	case a.err != nil && now.Sub(a.failed) < retryAfter:
		return nil, a.err
	case a.running == 0:
		a.since = now
	}
	a.running++
	return func(err error) { f.end(kind, a, err) }, nil
}

func (f *failing) end(kind schema.GroupVersionKind, a *attempts, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.running--
	a.since = time.Now()
	a.err = nil
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsResourceExpired(err) {
		a.err, a.failed = fmt.Errorf("list %s: %w", kind.GroupKind(), err), time.Now()
	}
	if a.running == 0 && a.err == nil {
		delete(f.kinds, kind)
	}
}
