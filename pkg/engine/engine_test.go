package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

var (
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
	setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// world is a memory API with one toy controller over it: it keeps as many pods as a ReplicaSet asks for, and reports
// how many there are.
type world struct {
	*memory
	t          *testing.T
	runner     *Runner[toy]
	shared     Shared
	lease      atomic.Bool
	events     *record.FakeRecorder
	panics     atomic.Int32
	counts     map[string]int                  // of what the hooks were told, behind memory's lock
	debounce   time.Duration                   // of reports
	lag        func(ctx context.Context) error // before each creation; nil: none
	beforeList func()                          // before each live list; nil: nothing
	decide     func(s toy) plan.Plan           // nil: keep pods
	stop       func()
}

type toy struct {
	set  *appsv1.ReplicaSet
	pods []*corev1.Pod
}

func (w *world) Held() bool { return w.lease.Load() }

// inBubble runs the test in virtual time, with the world's caches running, and ends all goroutines.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{memory: newMemory(), t: t, events: record.NewFakeRecorder(100000)}
		w.lease.Store(true)
		w.shared = Shared{
			Freshness: NewFreshness(), Lease: w, Explain: NewExplain(), Versions: w.memory,
		}
		test(t, w)
		if w.stop != nil {
			w.stop()
		}
		synctest.Wait()
	})
}

// start runs the controller, as a process does that has just become the leader.
func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.lead(ctx, cancel, w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{}))
	w.settle()
}

// lead runs the controller with these caches until ctx, which cancel ends, has ended.
func (w *world) lead(ctx context.Context, cancel func(), sets, pods cache.SharedIndexInformer) {
	w.runner = New(w.shared, Access{API: bounded{w.api()}, Events: w.events, Hooks: w.hooks()}, w.controller(sets, pods))
	done := make(chan error)
	go func() { done <- w.runner.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
}

// api is the memory, behind what the test puts in front of it.
func (w *world) api() API {
	if w.lag == nil && w.beforeList == nil {
		return w.memory
	}
	return lagging{w.memory, w.lag, w.beforeList}
}

// lagging is an API whose creations or live lists take time.
type lagging struct {
	API
	lag        func(ctx context.Context) error
	beforeList func()
}

func (l lagging) Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error) {
	if l.lag != nil {
		if err := l.lag(ctx); err != nil {
			return nil, err
		}
	}
	return l.API.Create(ctx, k, o)
}

func (l lagging) List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	if l.beforeList != nil {
		l.beforeList()
	}
	return l.API.List(ctx, k, namespace, selector)
}

// hooks count what the runner does.
func (w *world) hooks() Hooks {
	return Hooks{
		Pass: func(result Result, _ time.Duration) {
			if result == Panicked {
				w.panics.Add(1)
			}
			w.tally(string(result))
		},
		Retry: func() { w.tally("retry") },
		Write: func(x Write) { w.tally(x.Verb + " " + x.Resource + " " + x.Code) },
		Stale: func(resource schema.GroupResource) { w.tally("stale " + resource.String()) },
	}
}

func (w *world) tally(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[what]++
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

func (w *world) settle() {
	time.Sleep(300 * time.Millisecond) // virtual: retries and timers below that have run
	synctest.Wait()
}

func (w *world) controller(sets, pods cache.SharedIndexInformer) Controller[toy] {
	return Controller[toy]{
		Name: "toy", Workers: 3, Kinds: []string{"ReplicaSet"},
		Watches: []Watch{
			{Kind: setKind, Informer: sets, Resync: true, Wakes: func(before, after plan.Object) []plan.Key {
				if after == nil {
					after = before
				}
				return []plan.Key{keyOf(after)}
			}},
			{Kind: podKind, Informer: pods, Wakes: func(before, after plan.Object) []plan.Key {
				if after == nil {
					after = before
				}
				if ref := metav1.GetControllerOf(after); ref != nil {
					return []plan.Key{{Namespace: after.GetNamespace(), Name: ref.Name}}
				}
				return nil
			}},
		},
		Observe: func(_ context.Context, key plan.Key) (toy, bool, error) {
			o, ok, err := sets.GetStore().GetByKey(key.String())
			if !ok || err != nil {
				return toy{}, false, err
			}
			s := toy{set: o.(*appsv1.ReplicaSet)}
			for _, p := range pods.GetStore().List() {
				if p := p.(*corev1.Pod); metav1.IsControlledBy(p, s.set) && podutil.Active(p) {
					s.pods = append(s.pods, p)
				}
			}
			slices.SortFunc(s.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
			return s, true, nil
		},
		Owner: func(s toy) plan.Object { return s.set },
		Plan: func(_ time.Time, s toy) plan.Plan {
			if w.decide != nil {
				return w.decide(s)
			}
			return keepPods(s)
		},
		Report: func(_ time.Time, s toy, did plan.Outcome) plan.Plan {
			status := s.set.DeepCopy()
			status.Status.Replicas = int32(len(s.pods))
			if status.Status.Replicas == s.set.Status.Replicas {
				return plan.Plan{}
			}
			return plan.Plan{Steps: []plan.Step{plan.Change{Old: s.set, New: status, Status: true}}, Debounce: min(w.debounce, quietTime), MaxWait: w.debounce}
		},
		Live: func(s toy) []Live {
			return []Live{{Example: &corev1.Pod{}, Namespace: s.set.Namespace, Selector: labels.Everything(), Cached: objects(s.pods)}}
		},
	}
}

func objects(pods []*corev1.Pod) (all []plan.Object) {
	for _, p := range pods {
		all = append(all, p)
	}
	return all
}

func keepPods(s toy) plan.Plan {
	missing := int(*s.set.Spec.Replicas) - len(s.pods)
	switch {
	case missing > 0:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.set.Namespace, GenerateName: s.set.Name + "-",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.set, setKind)},
		}}
		return plan.Plan{Why: "create", Steps: []plan.Step{plan.Create{Object: pod, Count: missing, Events: plan.Events{
			Done:   plan.Event{Type: "Normal", Reason: "SuccessfulCreate", Message: "Created pod: {name}"},
			Failed: plan.Event{Type: "Warning", Reason: "FailedCreate", Message: "Error creating: {error}"},
		}}}}
	case missing < 0:
		return plan.Plan{Why: "delete", Steps: []plan.Step{plan.Delete{Objects: objects(s.pods[:-missing])}}}
	}
	return plan.Plan{Why: "content"}
}

// put creates or updates a ReplicaSet from outside.
func (w *world) put(name string, replicas int32) {
	w.t.Helper()
	k, _ := KindOf(&appsv1.ReplicaSet{})
	found, err := w.Get(context.Background(), k, "ns", name)
	if apierrors.IsNotFound(err) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		set.Spec.Replicas = &replicas
		_, err = w.Create(context.Background(), k, set)
	} else {
		found.(*appsv1.ReplicaSet).Spec.Replicas = &replicas
		_, err = w.Update(context.Background(), k, found, false)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantPods(n int) {
	w.t.Helper()
	if got := w.names(podKind); len(got) != n {
		w.t.Fatalf("want %d pods, got %v\nwrites: %s", n, got, strings.Join(w.writes(), "\n"))
	}
}

func (w *world) count(write string) (n int) {
	for _, l := range w.writes() {
		if strings.HasPrefix(l, write) {
			n++
		}
	}
	return n
}

func TestKeepsPodsAndReports(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 3)
		w.settle()
		w.wantPods(3)
		if n := w.count("refused"); n != 0 {
			t.Errorf("%d refused writes: %v", n, w.writes())
		}
		w.put("a", 1)
		w.settle()
		w.wantPods(1)
		if r, ok := w.shared.Explain.Get("toy", plan.Key{Namespace: "ns", Name: "a"}); !ok || r.Why != "content" {
			t.Errorf("explain: %+v, %v", r, ok)
		}
		if e := <-w.events.Events; e != "Normal SuccessfulCreate Created pod: a-2" {
			t.Errorf("event: %s", e)
		}
	})
}

// RS-9, RS-40: a cache that lags, however long, never leads to a pod too many or to a second deletion.
func TestStaleCacheNeverRepeatsAWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.freeze(podKind, true)
		w.put("a", 3)
		w.settle()
		w.wantPods(3)
		for range 20 {
			w.put("a", 5) // wakes the key
			time.Sleep(time.Minute)
		}
		w.wantPods(3)
		w.freeze(podKind, false)
		w.settle()
		w.wantPods(5)

		w.freeze(podKind, true)
		for range 20 {
			w.put("a", 4) // wakes the key
			time.Sleep(time.Minute)
		}
		if n := w.count("delete") + w.count("refused delete"); n != 1 {
			t.Errorf("%d deletions, want 1", n)
		}
		w.freeze(podKind, false)
		w.settle()
		w.wantPods(4)
	})
}

func TestNeverGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var tries atomic.Int32
		var allowed atomic.Bool
		w.before = func(verb string, k Kind, name string) error {
			if !allowed.Load() && verb == "create" && k.Kind == "Pod" {
				tries.Add(1)
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota"))
			}
			return nil
		}
		w.put("a", 1)
		time.Sleep(24 * time.Hour)
		if n := tries.Load(); n < 24*60 || n > 24*60*1.2+20 {
			t.Errorf("%d tries in a day, want one a minute", n)
		}
		allowed.Store(true)
		time.Sleep(61 * time.Second)
		w.wantPods(1)
	})
}

// RS-26: batches of 1, 2, 4, ...; none after a failure.
func TestSlowStart(t *testing.T) {
	for _, c := range []struct{ failAt, wantTries int }{{1, 1}, {2, 3}, {3, 3}, {4, 7}, {9, 15}} {
		t.Run(fmt.Sprintf("failure at pod %d", c.failAt), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var tries atomic.Int32
				w.before = func(verb string, k Kind, name string) error {
					if k.Kind == "Pod" && int(tries.Add(1)) == c.failAt {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota"))
					}
					return nil
				}
				e := New(w.shared, Access{API: bounded{w.api()}, Events: w.events, Hooks: w.hooks()}, Controller[toy]{Name: "toy"}).executor
				set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
				n := int32(100)
				set.Spec.Replicas = &n
				did := e.pass(t.Context(), set, &awaited{}).apply(keepPods(toy{set: set}).Steps)
				if did.Err == nil || !apierrors.IsForbidden(did.Failed(plan.Created)) {
					t.Errorf("outcome: %+v", did)
				}
				if got := int(tries.Load()); got != c.wantTries || len(did.Results) != c.wantTries {
					t.Errorf("%d tries, %d results, want %d", got, len(did.Results), c.wantTries)
				}
			})
		})
	}
}

func TestPanicStaysAtItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var cured atomic.Bool
		w.decide = func(s toy) plan.Plan {
			if s.set.Name == "bad" && !cured.Load() {
				panic("out of my depth")
			}
			return keepPods(s)
		}
		w.start()
		w.put("bad", 1)
		w.put("good", 2)
		time.Sleep(10 * time.Minute)
		w.wantPods(2)
		if n := w.panics.Load(); n < 10 || n > 40 {
			t.Errorf("%d panics, want a retry with back-off", n)
		}
		cured.Store(true)
		time.Sleep(61 * time.Second)
		w.wantPods(3)
	})
}

func TestWritesNothingWithoutTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.lease.Store(false)
		w.put("a", 3)
		time.Sleep(time.Hour)
		w.wantPods(0)
		w.lease.Store(true)
		time.Sleep(2 * time.Second)
		w.wantPods(3)
	})
}

// RS-28: a creation refused because the namespace is terminating is neither an error nor worth an event or a retry.
func TestNamespaceTerminatingIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		var tries atomic.Int32
		w.before = func(verb string, k Kind, name string) error {
			if k.Kind != "Pod" {
				return nil
			}
			tries.Add(1)
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		}
		w.put("a", 8)
		time.Sleep(time.Hour)
		if n := tries.Load(); n != 1 {
			t.Errorf("%d tries, want 1", n)
		}
		if len(w.events.Events) != 0 {
			t.Errorf("an event: %s", <-w.events.Events)
		}
	})
}

// A conflict is met once: the key then waits until the cache shows the version that the server holds.
func TestConflictWaitsForTheCache(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 0)
		w.settle()
		w.freeze(setKind, true)
		w.put("a", 1) // by somebody else; our cache does not show it
		k, _ := KindOf(&corev1.Pod{})
		set := w.runner.Watches[0].Informer.GetStore().List()[0].(*appsv1.ReplicaSet)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}}}
		w.decide = func(toy) plan.Plan { return plan.Plan{} }
		if _, err := w.Create(t.Context(), k, pod); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := w.count("refused update"); n != 1 {
			t.Errorf("%d conflicts, want 1:\n%s", n, strings.Join(w.writes(), "\n"))
		}
		w.freeze(setKind, false)
		w.settle()
		if n := w.count("update ReplicaSet"); n != 2 {
			t.Errorf("%d updates, want ours and theirs:\n%s", n, strings.Join(w.writes(), "\n"))
		}
	})
}

// A conflict that nothing explains, because there was none or because a proxy made it up, is soon tried again, ever more
// rarely.
func TestUnexplainedConflictIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("a", 0)
		w.settle()
		var mu sync.Mutex
		var refusals []time.Time
		w.before = func(verb string, _ Kind, name string) error {
			if verb != "update" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			refusals = append(refusals, time.Now())
			if len(refusals) > 10 {
				return nil
			}
			return apierrors.NewConflict(appsv1.Resource("replicasets"), name, errors.New("made up"))
		}
		w.decide = func(toy) plan.Plan { return plan.Plan{} }
		k, _ := KindOf(&corev1.Pod{})
		set := w.runner.Watches[0].Informer.GetStore().List()[0].(*appsv1.ReplicaSet)
		if _, err := w.Create(t.Context(), k, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(refusals) != 11 {
			t.Fatalf("%d tries", len(refusals))
		}
		for i, at := range refusals[1:] {
			wait := at.Sub(refusals[i])
			if least := min(time.Second<<i, lastRetry); wait < least || wait > least+2*time.Second {
				t.Errorf("try %d after %v, want %v", i+1, wait, least)
			}
		}
	})
}

func TestRunRefusesACacheWithoutVersion(t *testing.T) {
	f := NewFreshness()
	f.Use(podKind, cache.NewStore(cache.MetaNamespaceKeyFunc))
	if err := f.Usable(podKind); err == nil {
		t.Error("a store without version passes for usable")
	}
}
