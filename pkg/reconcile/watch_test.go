package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func named(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// An object that comes later than the controller enqueues nothing if it is to be ignored; changes and deletions still may.
func TestIgnore(t *testing.T) { // EP-7
	r := New(Shared{Tracker: freshness.NewTracker()}, Access{}, Controller[toy, struct{}, int]{Name: "toy"})
	r.begin()
	defer r.queue.ShutDown()
	h := r.handler(Watch{Ignore: func(plan.Object) bool { return true }, Enqueues: itself})
	h.OnAdd(named("new"), false)
	h.OnAdd(named("old"), true)
	h.OnDelete(named("gone"))
	if n := r.queue.Len(); n != 2 {
		t.Errorf("%d keys are queued, want old and gone", n)
	}
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: named("missed")}) // CI-15
	if n := r.queue.Len(); n != 3 {
		t.Errorf("%d keys are queued, want the deletion that was missed, too", n)
	}
}

// CI-14
func TestResync(t *testing.T) {
	for _, resync := range []bool{false, true} {
		r := New(Shared{Tracker: freshness.NewTracker()}, Access{}, Controller[toy, struct{}, int]{Name: "toy"})
		r.begin()
		r.handler(Watch{Resync: resync, Enqueues: itself}).OnUpdate(named("a"), named("a"))
		if n := r.queue.Len(); (n == 1) != resync {
			t.Errorf("resync %v: %d keys are queued", resync, n)
		}
		r.queue.ShutDown()
	}
}

// A new generation of the key's own object ends the cooldown; a new status of it, and a new generation of another object, do not.
func TestCooldownAndGenerations(t *testing.T) {
	web := plan.Key{Name: "web"}
	generation := func(name, version string, n int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Generation: n}}
	}
	for _, c := range []struct {
		name          string
		before, after *corev1.Pod
		cools         bool
	}{
		{"a new generation", generation("web", "1", 1), generation("web", "2", 2), false},
		{"a new status", generation("web", "1", 1), generation("web", "2", 1), true},
		{"another object", generation("web-1", "1", 1), generation("web-1", "2", 2), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Shared{Tracker: freshness.NewTracker()}, Access{}, Controller[toy, struct{}, int]{Name: "toy"})
			r.begin()
			defer r.queue.ShutDown()
			state, _ := r.keys.Admit(web, r.caches, time.Now())
			r.keys.Release(web, state, 10*time.Millisecond)
			r.handler(Watch{Enqueues: func(_, _ plan.Object) []plan.Key { return []plan.Key{web} }}).OnUpdate(c.before, c.after)
			if _, admitted := r.keys.Admit(web, r.caches, time.Now()); (admitted.Wait > 0) != c.cools {
				t.Errorf("%s: %+v", c.name, admitted)
			}
		})
	}
}

// RecordNews leaves out what was there before the controller began.
func TestRecordedNews(t *testing.T) {
	r := New(Shared{Tracker: freshness.NewTracker()}, Access{}, Controller[toy, struct{}, int]{Name: "toy"})
	r.begin()
	defer r.queue.ShutDown()
	one := func(_, _ plan.Object) []plan.Key { return []plan.Key{{Name: "one"}} }
	h := r.handler(Watch{RecordNews: true, Resync: true, Enqueues: one})
	h.OnAdd(named("old"), true)
	h.OnUpdate(named("old"), named("old")) // a resync
	h.OnAdd(named("new"), false)
	h.OnDelete(named("old"))
	changes := r.keys.Peek(plan.Key{Name: "one"}).Changes
	if len(changes) != 2 || changes[0].After.GetName() != "new" || changes[1].Before.GetName() != "old" {
		t.Errorf("%+v", changes)
	}
}

// The changes since the last commit are handed over in order: also when a reconcile failed, and those that came while it was
// under way.
func TestRecordedChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var during, refuse atomic.Bool
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[1].Record = true
			c.Report = nil
			c.Period = time.Minute
		}
		w.decide = func(s toy) plan.Plan {
			if during.Swap(false) {
				w.putPods("a", "z")
				time.Sleep(time.Second)
			}
			return keepPods(s)
		}
		w.start()
		w.put("a", 2)
		w.settle()
		w.wantChanges("made by ourselves", "+a-2 +a-3")
		refuse.Store(true)
		w.BeforeWrite(func(x clienttest.Write) error {
			if refuse.Load() && x.Verb == "delete" {
				return exceeded(x.Key.Name)
			}
			return nil
		})
		w.putPods("a", "x", "y")
		w.settle()
		asked := w.requests()
		if got := changesOf(asked[len(asked)-1]); got != "+x +y" {
			t.Errorf("pods that are too many, and cannot be deleted: %q", got)
		}
		time.Sleep(time.Minute)
		w.wantChanges("again", "+x +y")
		refuse.Store(false)
		during.Store(true)
		time.Sleep(2 * time.Minute)
		asked = w.requests()
		if got := changesOf(asked[0]); got != "+x +y" {
			t.Errorf("once more: %q", got)
		}
		got := changesOf(asked[1:]...)
		if rest := strings.Fields(got); rest[0] != "+z" || len(rest) != 4 || strings.Count(got, " -") != 3 {
			t.Errorf("one that came while others were deleted: %q", got)
		}
	})
}

// Of a watch with RecordLatest, Observe is given the latest change of each object, and after a failure the later one.
func TestLatestChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var fails atomic.Bool
		w.decide = nothing
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[0].RecordLatest = true
			observe := c.Observe
			c.Observe = func(ctx context.Context, r Request[int]) (Observation[toy, int], error) {
				o, err := observe(ctx, r)
				if fails.Load() {
					err = errors.New("not now")
				}
				return o, err
			}
			enqueues := c.Watches[0].Enqueues
			c.Watches[0].Enqueues = func(before, after plan.Object) []plan.Key {
				if keys := enqueues(before, after); keys[0].Name != "b" {
					return keys
				}
				return []plan.Key{{Namespace: "ns", Name: "a"}}
			}
		}
		w.start()
		w.put("a", 0)
		w.settle()
		w.wantChanges("new", "+a")
		fails.Store(true)
		w.put("b", 0)
		for i := range 50 {
			w.put("a", int32(i+1))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		if asked := w.requests(); len(asked) < 5 || changesOf(asked[len(asked)-1]) != "+b ~a" {
			t.Errorf("%q", changesOf(asked[len(asked)-1]))
		} else if latest := asked[len(asked)-1].Changes[1].After.(*appsv1.ReplicaSet); *latest.Spec.Replicas != 50 {
			t.Errorf("it asks for %d pods", *latest.Spec.Replicas)
		}
		fails.Store(false)
		time.Sleep(2 * time.Minute)
		w.wantChanges("again, and they are committed", "+b ~a")
		w.put("a", 0)
		w.settle()
		w.wantChanges("a later one", "~a")
	})
}

// What comes while Observe finds that the key's object is gone is about its successor.
func TestRecordedChangesOfASuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var during atomic.Bool
		w.decide = nothing
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[0].Record = true
			observe := c.Observe
			c.Observe = func(ctx context.Context, r Request[int]) (Observation[toy, int], error) {
				o, err := observe(ctx, r)
				if !o.Exists && during.Swap(false) {
					w.put("a", 0)
					time.Sleep(time.Second)
				}
				return o, err
			}
		}
		w.start()
		w.put("a", 0)
		w.settle()
		w.wantChanges("new", "+a")
		during.Store(true)
		w.remove("a")
		time.Sleep(time.Minute)
		w.wantChanges("gone, and come back meanwhile", "-a +a")
	})
}

// wantChanges compares the changes that Observe was told of, of all observations in order.
func (w *world) wantChanges(what, want string) {
	w.t.Helper()
	if got := changesOf(w.requests()...); got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func changesOf(asked ...Request[int]) string {
	var words []string
	for _, r := range asked {
		for _, c := range r.Changes {
			switch {
			case c.Before == nil:
				words = append(words, "+"+c.After.GetName())
			case c.After == nil:
				words = append(words, "-"+c.Before.GetName())
			default:
				words = append(words, "~"+c.After.GetName())
			}
		}
	}
	return strings.Join(words, " ")
}

// With a negative delay a change waits for the next reconcile, which is told of it.
func TestNegativeDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var delay atomic.Int64
		w.decide = nothing
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[0].RecordLatest = true
			c.Watches[0].Delay = func(plan.Key) time.Duration { return time.Duration(delay.Load()) }
		}
		w.start()
		delay.Store(-1)
		w.put("a", 0)
		time.Sleep(time.Hour)
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d reconciles", n)
		}
		delay.Store(0)
		w.put("a", 1)
		w.settle()
		w.wantChanges("with the next one", "~a")
	})
}

// A watch may delay some of the keys that it enqueues.
func TestDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.decide = nothing
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Watches[0].Delay = func(key plan.Key) time.Duration {
				if key.Name == "later" {
					return 10 * time.Second
				}
				return 0
			}
		}
		w.start()
		for _, name := range []string{"later", "now"} {
			w.put(name, 0)
		}
		w.settle()
		began := time.Now().Add(-300 * time.Millisecond)
		time.Sleep(time.Minute)
		for _, r := range w.requests() {
			after, want := r.Now.Sub(began), time.Duration(0)
			if r.Key.Name == "later" {
				want = 10 * time.Second
			}
			if after != want {
				t.Errorf("%s was reconciled after %v", r.Key.Name, after)
			}
		}
		if n := w.counted(string(Unchanged)); n != 2 {
			t.Errorf("%d reconciles", n)
		}
	})
}

// The owner that work groups go by is that of the object that a key is named after, and not of another one that enqueues it.
func TestControllerOf(t *testing.T) {
	o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	o.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: "web", Controller: ptr.To(true)}}
	for _, c := range []struct {
		key  plan.Key
		of   plan.Object
		want types.UID
	}{
		{plan.Key{Namespace: "ns", Name: "a"}, o, "web"},
		{plan.Key{Namespace: "ns", Name: "b"}, o, ""},
		{plan.Key{Namespace: "other", Name: "a"}, o, ""},
		{plan.Key{Namespace: "ns", Name: "a"}, nil, ""},
		{plan.Key{Name: "a"}, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, ""},
	} {
		if got := controllerOf(c.key, c.of); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.key, c.of, got, c.want)
		}
	}
}
