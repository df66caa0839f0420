package reconcile

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A new leader does not trust its cache before it has compared it with the server.
func TestTakeoverFromALeaderWhoseWritesTheCacheLacks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put("a", 2)
		w.start()
		w.wantPods(2)
		w.stop()

		// The next leader's pod cache was filled before the last scale-up of the one before.
		ctx, cancel := context.WithCancel(context.Background())
		sets, pods := w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{})
		synctest.Wait()
		w.put("a", 4)
		w.FreezeWatches(podKind)
		w.putPods("a", "x", "y")
		w.lead(ctx, cancel, sets, pods)
		time.Sleep(10 * time.Minute)
		w.wantPods(4)
		w.ResumeWatches(podKind)
		time.Sleep(time.Minute)
		w.wantPods(4)
	})
}

// What comes into one cache after the takeover may be from before it, while another cache still shows the past.
func TestTakeoverWithCachesOfDifferentAges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var lists atomic.Int32
		w.beforeList = func() { lists.Add(1) }
		ctx, cancel := context.WithCancel(context.Background())
		sets, pods := w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{})
		synctest.Wait()
		w.FreezeWatches(setKind)
		w.FreezeWatches(podKind)
		w.put("a", 2)
		w.putPods("a", "x", "y")
		w.lead(ctx, cancel, sets, pods)
		time.Sleep(time.Minute)
		w.ResumeWatches(setKind)
		time.Sleep(10 * time.Minute)
		w.wantPods(2)
		w.ResumeWatches(podKind)
		time.Sleep(time.Minute)
		w.wantPods(2)
		if n := lists.Load(); n == 0 {
			t.Error("nothing was compared with the server")
		}

		w.put("b", 0) // of our own time: an event of each kind, and nothing to compare any more
		time.Sleep(time.Minute)
		before := lists.Load()
		w.put("c", 2)
		time.Sleep(time.Minute)
		w.wantPods(4)
		if n := lists.Load(); n != before {
			t.Errorf("%d comparisons of what is new", n-before)
		}
	})
}

// Without an identity that may read whatever is cached, caches are trusted.
func TestTakeoverWithoutAVerifier(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var lists atomic.Int32
		w.beforeList = func() { lists.Add(1) }
		ctx, cancel := context.WithCancel(context.Background())
		w.put("a", 2)
		runner := w.newRunner(w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{}))
		runner.shared.Verifier = nil
		w.runner = runner
		w.again(ctx, cancel)
		time.Sleep(time.Minute)
		w.wantPods(2)
		if n := lists.Load(); n != 0 {
			t.Errorf("%d live reads", n)
		}
	})
}
