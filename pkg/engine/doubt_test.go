package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// putPods creates pods of a ReplicaSet, as a former leader has.
func (w *world) putPods(set string, names ...string) {
	w.t.Helper()
	sets, _ := KindOf(&appsv1.ReplicaSet{})
	pods, _ := KindOf(&corev1.Pod{})
	owner, err := w.Get(context.Background(), sets, "ns", set)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}}}
		if _, err := w.Create(context.Background(), pods, pod); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A write that is done but not answered must be found by reading live.
func TestUnansweredWriteIsSettledLive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var answers atomic.Bool
		w.after = func(verb string, k Kind, _ string) error {
			if !answers.Load() && verb == "create" && k.Kind == "Pod" {
				return errors.New("connection reset by peer")
			}
			return nil
		}
		w.freeze(podKind, true)
		w.put("a", 1)
		time.Sleep(10 * time.Minute)
		w.wantPods(1)
		answers.Store(true)
		w.freeze(podKind, false)
		time.Sleep(2 * time.Minute)
		w.wantPods(1)
	})
}

// While the server is read live the caches may catch up. What was planned before that is not carried out.
func TestAPlanFromBeforeTheLiveReadIsMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.beforeList = func() {
			w.freeze(podKind, false)
			time.Sleep(time.Second)
		}
		w.start()
		var answered atomic.Bool
		w.after = func(verb string, k Kind, _ string) error {
			if verb == "create" && k.Kind == "Pod" && !answered.Swap(true) {
				return errors.New("connection reset by peer")
			}
			return nil
		}
		w.freeze(podKind, true)
		w.put("a", 1)
		time.Sleep(2 * time.Minute)
		w.wantPods(1)
		if made := w.counted("create pods 201") + w.counted("create pods 200"); made != 0 {
			t.Errorf("%d pods were made after the live read", made)
		}
	})
}

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
		w.freeze(podKind, true)
		w.putPods("a", "x", "y")
		w.lead(ctx, cancel, sets, pods)
		time.Sleep(10 * time.Minute)
		w.wantPods(4)
		w.freeze(podKind, false)
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
		w.freeze(setKind, true)
		w.freeze(podKind, true)
		w.put("a", 2)
		w.putPods("a", "x", "y")
		w.lead(ctx, cancel, sets, pods)
		time.Sleep(time.Minute)
		w.freeze(setKind, false)
		time.Sleep(10 * time.Minute)
		w.wantPods(2)
		w.freeze(podKind, false)
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
