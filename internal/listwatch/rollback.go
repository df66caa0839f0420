package listwatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Rollbacks notice that an API server has forgotten what it had returned: its storage was restored from a backup, or it
// reads from a replica that lacks the latest writes. Resource versions have gone back, and those that were seen before
// mean other contents now. A watch from a version that the server has not reached yet is no error: the server sends
// nothing until it comes there. So a watch that was cut is not opened again before a consistent read has shown that the
// server has reached the version from which it is to go on.
type Rollbacks struct {
	handler atomic.Pointer[func(error)]
}

// OnRollback sets the handler for resource versions that have gone back. The cache that has noticed it then stands
// still, because what it would get does not fit together with what other caches have.
func (r *Rollbacks) OnRollback(f func(error)) { r.handler.Store(&f) }

// opening returns a function that opens watches after it has checked their versions where the watch before was cut.
func opening[L runtime.Object, W any](s *Source, list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (W, error)) func(context.Context, metav1.ListOptions) (W, error) {
	return func(ctx context.Context, o metav1.ListOptions) (w W, err error) {
		if s.Activity.cut.Load() {
			if err := checked(ctx, s, o.ResourceVersion, list); err != nil {
				return w, err
			}
			s.Activity.cut.Store(false)
		}
		return watches(ctx, o)
	}
}

// listing returns a function that lists, and finds out why a server says that it has not reached the version that is
// asked for.
func listing[L runtime.Object](s *Source,
	list func(context.Context, metav1.ListOptions) (L, error)) func(context.Context, metav1.ListOptions) (L, error) {
	return func(ctx context.Context, o metav1.ListOptions) (L, error) {
		answer, err := list(ctx, o)
		if tooLarge(err) {
			if rolledBack := checked(ctx, s, o.ResourceVersion, list); rolledBack != nil {
				err = rolledBack
			}
		}
		return answer, err
	}
}

// tooLarge reports whether a server has answered that it has not reached a resource version.
func tooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// rollbackPause is how long a cache waits before it lists anew what has gone back, if there is no handler.
const rollbackPause = 2 * longestPause

// checked returns an error unless a consistent read shows that the server has reached the version. If it has gone back
// and somebody is notified, it does not return before ctx ends.
func checked[L runtime.Object](ctx context.Context, s *Source, version string,
	list func(context.Context, metav1.ListOptions) (L, error)) error {
	if version == "" || version == "0" {
		return nil
	}
	now, err := current(ctx, list)
	if err != nil {
		return err
	}
	if !before(now, version) {
		return nil
	}
	err = fmt.Errorf("%s were at version %s and are at %s now", s.Of, version, now)
	if report := s.Rollbacks.handler.Load(); report != nil {
		(*report)(err)
		<-ctx.Done()
	}
	select {
	case <-time.After(rollbackPause):
	case <-ctx.Done():
	}
	return apierrors.NewResourceExpired(err.Error()) // whoever reads it lists anew
}

// current reads consistently at which version a resource is.
func current[L runtime.Object](ctx context.Context,
	list func(context.Context, metav1.ListOptions) (L, error)) (version string, err error) {
	now, err := list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	about, err := meta.ListAccessor(now)
	if err != nil {
		return "", err
	}
	return about.GetResourceVersion(), nil
}

// before reports whether a resource version is known to be older than another. Without versions that can be compared,
// nothing is known.
func before(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

// cutMargin is how much earlier than asked for a server may end a watch by itself.
const cutMargin = time.Second
