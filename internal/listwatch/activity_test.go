package listwatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// observed is a ListWatch of pods whose activity is noted, and its server, in virtual time.
type observed struct {
	*testing.T
	*cache.ListWatch
	activity *Activity
	err      error // of lists and watches; nil: they succeed
	sends    *watch.FakeWatcher
}

func observe(t *testing.T, test func(o *observed)) {
	synctest.Test(t, func(t *testing.T) {
		o := &observed{T: t, activity: NewLiveness().Of("pods")}
		o.ListWatch = New(&Source{Of: "*v1.Pod", Activity: o.activity, Rollbacks: &Rollbacks{}},
			func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
				return &corev1.PodList{}, o.err
			}, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				o.sends = watch.NewFake()
				return o.sends, o.err
			}, nil)
		test(o)
	})
}

// open begins a watch and reads what comes, like a reflector. The returned function has the server end it.
func (o *observed) open() (end func()) {
	o.Helper()
	ctx, cancel := context.WithCancel(o.Context())
	if o.err != nil {
		cancel() // after the first try
	}
	w, err := o.WatchWithContext(ctx, metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](300)})
	if err != nil {
		return cancel
	}
	done, server := make(chan struct{}), o.sends
	go func() {
		defer close(done)
		for range w.ResultChan() {
		}
	}()
	return func() { server.Stop(); <-done; cancel() }
}

func bookmark(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: annotations}}
}

func (o *observed) send(event watch.EventType, p *corev1.Pod) {
	o.Helper()
	o.sends.Action(event, p)
	synctest.Wait()
}

// want checks both questions; text is part of the error, "" for none.
func (o *observed) want(when, stalled, stale string) {
	o.Helper()
	for _, c := range []struct {
		what, want string
		err        error
	}{{"stalled", stalled, o.activity.Stalled(5 * time.Minute)}, {"stale", stale, o.activity.Stale(2 * time.Minute)}} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			o.Errorf("%s, %s: got %v, want %q", when, c.what, c.err, c.want)
		}
	}
}

func TestAnOpenWatchThatFallsSilent(t *testing.T) {
	observe(t, func(o *observed) {
		end := o.open()
		for range 20 { // a quiet cluster
			time.Sleep(time.Minute)
			o.send(watch.Bookmark, bookmark(nil))
			o.want("bookmarks come", "", "")
		}
		time.Sleep(3 * time.Minute)
		o.want("silent for 3m", "", "nothing has come for 3m0s")
		time.Sleep(3 * time.Minute)
		o.want("silent for 6m", "the watch is open, but nothing has come for 6m0s", "6m0s")
		o.send(watch.Modified, projectiontest.FullPod("a"))
		o.want("it speaks again", "", "")
		time.Sleep(6 * time.Minute)
		end()
		o.want("its end is activity, too", "", "no watch is open")
		end = o.open()
		o.want("another one is open", "", "")
		end()
	})
}

// A server that sends no bookmarks is no reason to restart, again and again, on a quiet cluster.
func TestAServerWithoutBookmarks(t *testing.T) {
	observe(t, func(o *observed) {
		for range 20 {
			end := o.open()
			o.send(watch.Bookmark, bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})) // promises no others
			time.Sleep(5 * time.Minute)
			o.want("silent for as long as it was asked to be open", "", "")
			end()
			time.Sleep(time.Second)
		}
		end := o.open()
		time.Sleep(7 * time.Minute)
		o.want("open for longer than it was asked to be", "nothing has come for 7m0s", "7m0s")
		end()
	})
}

// A server that cannot be reached is no reason to restart, but the caches become stale.
func TestFailingAttemptsAreNotStalled(t *testing.T) {
	for _, failure := range []error{errors.New("connection refused"), apierrors.NewServiceUnavailable("starting"),
		apierrors.NewTooManyRequests("busy", 1)} {
		observe(t, func(o *observed) {
			end := o.open()
			o.send(watch.Bookmark, bookmark(nil))
			end()
			o.err = failure
			for range 30 {
				time.Sleep(30 * time.Second)
				o.open()()
				o.want("attempts fail", "", o.staleAfter(2*time.Minute))
			}
			o.err = nil
			end = o.open()
			o.want("reached again", "", "")
			end()
		})
	}
}

// staleAfter is what is to be said of a cache for which nothing comes for longer than that.
func (o *observed) staleAfter(bound time.Duration) string {
	if time.Since(o.activity.LastActivity()) > bound {
		return "no watch is open"
	}
	return ""
}

// A reflector that has ended, or a request that hangs, shows no activity at all.
func TestNeitherOpenNorAttempted(t *testing.T) {
	observe(t, func(o *observed) {
		o.want("before the first request", "", "")
		o.open()()
		time.Sleep(6 * time.Minute)
		o.want("nobody tries", "no watch is open, and nothing has come for 6m0s", "6m0s")
		if _, err := o.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		o.want("listed again", "", "")
	})
}

// A reflector stops the watch that it gives up. Its end must not count for the next one.
func TestAStoppedWatchThatEndsLate(t *testing.T) {
	observe(t, func(o *observed) {
		first, err := o.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		end := o.open()
		first.Stop()
		synctest.Wait()
		o.send(watch.Bookmark, bookmark(nil))
		time.Sleep(6 * time.Minute)
		o.want("the second one is silent", "the watch is open, but", "the watch is open, but")
		end()
	})
}

// What is refused for a while, and until now, is told of the watch that needs it. An answer that is no refusal ends that; that nobody
// answers does not. A watch needs no list.
func TestRefusedListsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now error
		a := &Activity{}
		lw := New(&Source{Of: "*v1.Pod", Resource: "pods", Activity: a, Rollbacks: &Rollbacks{}},
			func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
				return &corev1.PodList{}, now
			}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), now }, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // after the first try
		list := func(err error) { now = err; _, _ = lw.ListWithContext(ctx, metav1.ListOptions{}) }
		open := func(err error) {
			now = err
			if w, err := lw.WatchWithContext(ctx, metav1.ListOptions{}); err == nil {
				w.Stop()
			}
		}
		want := func(when, want string) {
			t.Helper()
			got := ""
			if err := a.Refused(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		const refuses = "the API server refuses to let this process "
		forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
		list(forbidden)
		want("once", "")
		time.Sleep(10 * time.Second)
		list(errors.New("connection refused"))
		list(forbidden)
		want("for 10s", refuses+"list pods: 403 Forbidden")
		open(apierrors.NewUnauthorized("who?"))
		time.Sleep(time.Minute)
		list(forbidden)
		open(apierrors.NewUnauthorized("who?"))
		want("both", refuses+"list pods: 403 Forbidden\n"+refuses+"watch pods: 401 Unauthorized")
		open(apierrors.NewInternalError(errors.New("broken")))
		want("a watch that is not refused needs no list", "")
		list(forbidden)
		time.Sleep(time.Minute)
		list(forbidden)
		list(nil)
		want("allowed", "")
		list(forbidden)
		time.Sleep(time.Minute)
		list(forbidden)
		time.Sleep(2*time.Minute + time.Second)
		want("not asked any more", "")
	})
}
