package listwatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

var errAway = errors.New("connection refused")

// outage fails until it is over.
type outage struct {
	err   error
	until time.Time
	tries []time.Time
}

func (f *outage) try(context.Context, metav1.ListOptions) (string, error) {
	f.tries = append(f.tries, time.Now())
	if time.Now().Before(f.until) {
		return "", f.err
	}
	return "here", nil
}

func TestRetriesWhileTheServerIsAway(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		most time.Duration // after the outage
	}{
		{"nobody answers", errAway, 8 * time.Second},
		{"not ready", apierrors.NewServiceUnavailable("starting"), 8 * time.Second},
		{"error of its own", apierrors.NewInternalError(errAway), 8 * time.Second},
		{"too many requests, and how long to wait", apierrors.NewTooManyRequests("busy", 20), 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 10 * time.Minute
				f := &outage{err: c.err, until: time.Now().Add(lasts)}
				got, err := retry(t.Context(), &Source{}, metav1.ListOptions{}, f.try)
				if got != "here" || err != nil {
					t.Fatalf("got %q, %v", got, err)
				}
				if late := time.Since(f.until); late > c.most {
					t.Errorf("back %v after the outage", late)
				}
				if n := len(f.tries); n > int(lasts/(longestPause))+10 {
					t.Errorf("%d tries in %v", n, lasts)
				}
			})
		})
	}
}

func TestLastingErrorsAreReturned(t *testing.T) {
	initial := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
	for _, c := range []struct {
		name    string
		err     error
		options metav1.ListOptions
	}{
		{"version expired", apierrors.NewResourceExpired("too old"), metav1.ListOptions{}},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{}, "", nil), metav1.ListOptions{}},
		{"initial events not served", apierrors.NewInvalid(schema.GroupKind{}, "", nil), initial},
		{"initial events, error of the server", apierrors.NewInternalError(errAway), initial},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &outage{err: c.err, until: time.Now().Add(time.Hour)}
				if _, err := retry(t.Context(), &Source{}, c.options, f.try); !errors.Is(err, c.err) || len(f.tries) != 1 {
					t.Errorf("%v after %d tries", err, len(f.tries))
				}
			})
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		f := &outage{err: errAway, until: began.Add(time.Hour)}
		if _, err := retry(ctx, &Source{}, metav1.ListOptions{}, f.try); !errors.Is(err, errAway) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A server that puts off watches with initial events and lists does not keep a cache from being filled when it can, nor the process from
// ending.
func TestABusyServerHoldsUpNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := apierrors.NewTooManyRequests("busy", 1)
		var lists atomic.Int32
		list := func(context.Context, metav1.ListOptions) (*corev1.PodList, error) { lists.Add(1); return nil, busy }
		watches := func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, busy }
		s := &Source{Of: "*v1.Pod", Resource: "pods", Activity: &Activity{}, Rollbacks: &Rollbacks{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cache.NewReflectorWithOptions(New(s, list, watches, nil), &corev1.Pod{},
				cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{}).RunWithContext(ctx)
		}()
		time.Sleep(3*time.Minute + 10*time.Millisecond)
		if lists.Load() < 20 {
			t.Errorf("asked %d times", lists.Load())
		}
		cancel()
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 0 {
			t.Errorf("ended after %v", took)
		}
	})
}
