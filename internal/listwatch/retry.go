package listwatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/paging"
)

// Lists and watches that fail because the server cannot be reached or is not ready are retried after pauses that
// double between these bounds. client-go's own pauses grow to a minute and cannot be configured: after an API server
// was away for half a minute, caches would be stale for another minute.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
	// LongestRefusal bounds the pauses before a server is asked again that answers with errors of its own.
	LongestRefusal = time.Minute
)

// retry calls try until it succeeds, fails with an error that is not transient, or ctx ends.
func retry[T any](ctx context.Context, s *Source, o metav1.ListOptions,
	try func(context.Context, metav1.ListOptions) (T, error)) (T, error) {
	pause := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.5, Cap: longestPause, Steps: 32}
	for {
		answer, err := try(ctx, o)
		if err == nil || ctx.Err() != nil || !transient(err, o) || s.Gate != nil && apis.NotFound(err) {
			return answer, err
		}
		s.errors.log(klog.FromContext(ctx).WithValues("type", s.Of), err)
		again := time.NewTimer(max(pause.Step(), retryAfter(err)))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return answer, err
		}
	}
}

// transient reports whether the failure may pass by itself: nobody has answered, or the server says that it cannot
// answer at the moment. A watch with initial events is not retried after an answer of the server, because client-go
// then tries a list.
func transient(err error, o metav1.ListOptions) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	if tooLarge(err) {
		return false // client-go then lists without a version
	}
	return o.SendInitialEvents == nil && (code == http.StatusTooManyRequests || code >= http.StatusInternalServerError)
}

// retryAfter is how long the server asks to wait, but at most [LongestRefusal]: an aggregated API server may ask for
// a day.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, LongestRefusal)
}

// Source says what is listed and watched.
type Source struct {
	Of        string // the kind or the resource, for the log
	Resource  string // with its group, as "pods" or "deployments.apps"
	Activity  *Activity
	Rollbacks *Rollbacks
	Gate      *apis.Gate // of an API that may be missing; nil for others
	// Fresh: a list is never older than what is known already, so that new objects are not taken for gone.
	Fresh bool

	errors errorLimiter
}

// New returns a ListWatch that retries and whose activity is noted. A convert function that is not nil is applied to
// the events of watches.
func New[L runtime.Object](
	s *Source, list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error), convert func(watch.Event) watch.Event,
) *cache.ListWatch {
	s.Activity.readBy(func(ctx context.Context) (string, error) { return current(ctx, list) })
	var pages paging.List // of the list that client-go is about to read, one page after the other
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Continue == "" {
				pages = paging.List{}
			}
			if s.Fresh && o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			answer, err := apis.Do(ctx, s.Gate, false,
				func() (L, error) { return retry(ctx, s, o, track(s, "list", listing(s, list))) })
			if err != nil {
				return nil, err
			}
			if about, err := meta.ListAccessor(answer); err == nil {
				if err := pages.Next(about.GetContinue()); err != nil {
					return nil, fmt.Errorf("list %s: %w", s.Of, err)
				}
				s.Activity.listed(about.GetResourceVersion())
				s.Gate.Listed(about.GetResourceVersion())
			}
			return answer, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := apis.Do(ctx, s.Gate, o.SendInitialEvents == nil, func() (watch.Interface, error) {
				return retry(ctx, s, o, track(s, "watch", opening(s, list, watches)))
			})
			if err != nil {
				if o.SendInitialEvents != nil && apierrors.IsTooManyRequests(err) {
					// client-go would ask for the same again, after pauses that do not end with ctx. A list may do.
					err = errors.New(err.Error())
				}
				return nil, err
			}
			return trackWatch(s.Activity, w, o, s.Gate.Listing(convert)), nil
		},
	}
}

// Follow lists and watches until ctx ends. It is for a reflector without an informer.
func (s *Source) Follow(ctx context.Context, reflector *cache.Reflector) {
	pauses := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.5, Cap: LongestRefusal, Steps: math.MaxInt32}
	_ = pauses.DelayWithReset(clock.RealClock{}, resetAfter).Until(ctx, true, true,
		func(ctx context.Context) (bool, error) {
			if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
				s.errors.log(klog.FromContext(ctx).WithValues("type", s.Of), err)
			}
			return false, nil
		}) // ends with ctx only
}
