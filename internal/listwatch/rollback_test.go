package listwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// A watch that was cut is opened again only where the server has reached the version from which it is to go on.
func TestRollbacksAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name      string
		lasts     time.Duration // of the first watch, which is to end by itself after 300 s
		now       string        // the version of the server afterwards
		told, ask bool          // that somebody is told of a rollback, and that the server is asked
		opens     bool
	}{
		{name: "the server went on", lasts: 10 * time.Second, now: "8", ask: true, opens: true},
		{name: "nothing was written", lasts: 10 * time.Second, now: "7", ask: true, opens: true},
		{name: "the server went back, and somebody is told", lasts: 10 * time.Second, now: "6", told: true, ask: true},
		{name: "the server went back, and nobody is told", lasts: 10 * time.Second, now: "6", ask: true},
		{name: "a watch that has ended in time", lasts: 300 * time.Second, now: "8", opens: true},
		{name: "versions that are no numbers", lasts: 10 * time.Second, now: "a", ask: true, opens: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r Rollbacks
				told, asked, opened := 0, 0, 0
				if c.told {
					r.handler.Store(ptr.To(func(error) { told++ }))
				}
				server := watch.NewFake()
				lw := New(&Source{Of: "*v1.Pod", Activity: &Activity{}, Rollbacks: &r},
					func(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
						if asked++; o.Limit != 1 || o.ResourceVersion != "" {
							t.Errorf("asked for %+v", o)
						}
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: c.now}}, nil
					}, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						opened++
						return server, nil
					}, nil)
				options := metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: ptr.To[int64](300)}
				w, err := lw.WatchWithContext(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.lasts)
				server.Stop()
				<-w.ResultChan()
				server = watch.NewFake()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				w, err = lw.WatchWithContext(ctx, options)
				if (err == nil) != c.opens || (opened == 2) != c.opens || (asked == 1) != c.ask || (told == 1) != c.told {
					t.Errorf("%v; asked %d times, opened %d watches, told %d times", err, asked, opened, told)
				}
				if !c.opens && (!apierrors.IsResourceExpired(err) || (ctx.Err() != nil) != c.told) {
					t.Errorf("%v after %v", err, ctx.Err())
				}
				if err == nil {
					w.Stop()
				}
			})
		})
	}
}

// A server that says that it has not reached the version of a list may only be slow, or may have gone back.
func TestListsOfAVersionThatIsTooLarge(t *testing.T) {
	for now, told := range map[string]bool{"6": true, "7": false} {
		synctest.Test(t, func(t *testing.T) {
			var r Rollbacks
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := false
			r.handler.Store(ptr.To(func(error) { got = true }))
			lw := New(&Source{Of: "*v1.Pod", Activity: &Activity{}, Rollbacks: &r},
				func(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
					if o.ResourceVersion == "" {
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: now}}, nil
					}
					err := apierrors.NewTimeoutError("Too large resource version", 1)
					err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
					return nil, err
				}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errAway }, nil)
			_, err := lw.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: "7"})
			if got != told || told != apierrors.IsResourceExpired(err) || !told && !tooLarge(err) {
				t.Errorf("at %s: told %t, %v", now, got, err)
			}
		})
	}
}
