package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestLevels(t *testing.T) {
	key := func(name string) plan.Key { return plan.Key{Name: name} }
	push := func(l *levels, name string, at level) { l.want(key(name), urgency{level: at}); l.Push(key(name)) }
	drain := func(l *levels) string {
		var names []string
		for l.Len() > 0 {
			names = append(names, l.Pop().Name)
		}
		return strings.Join(names, " ")
	}
	t.Run("live goes before background, begun before live", func(t *testing.T) {
		l := newLevels()
		push(l, "b1", background)
		push(l, "l1", live)
		push(l, "g1", begun)
		if got := drain(l); got != "g1 l1 b1" {
			t.Error(got)
		}
	})
	t.Run("what began first goes first, whenever it was queued", func(t *testing.T) {
		l := newLevels()
		for _, since := range []int64{3, 1, 4, 2} {
			k := key(fmt.Sprint("g", since))
			l.want(k, urgency{begun, since})
			l.Push(k)
		}
		if got := drain(l); got != "g1 g2 g3 g4" {
			t.Error(got)
		}
	})
	t.Run("outdated tickets are dropped", func(t *testing.T) {
		l := newLevels()
		push(l, "idle", background)
		for i := range 10_000 {
			push(l, fmt.Sprint("b", i), background)
			push(l, fmt.Sprint("l", i), live)
			l.Pop()
			l.Pop()
		}
		if n, m := len(l.urgent), len(l.arrived); l.Len() != 1 || n > 103 || m > 103 {
			t.Errorf("%d queued, but %d and %d tickets", l.Len(), n, m)
		}
	})
	t.Run("a key that is added again can only rise", func(t *testing.T) {
		l := newLevels()
		push(l, "b1", background)
		push(l, "b2", background)
		l.want(key("b2"), urgency{level: live})
		l.Touch(key("b2"))
		l.want(key("b2"), urgency{level: background})
		l.Touch(key("b2"))
		if got := drain(l); got != "b2 b1" {
			t.Error(got)
		}
	})
	t.Run("the key that has waited longest gets every sixteenth turn", func(t *testing.T) {
		l := newLevels()
		push(l, "b1", background)
		for i := range 20 {
			push(l, fmt.Sprint("l", i), live)
		}
		for i := range ageing - 1 {
			if got := l.Pop().Name; got != fmt.Sprint("l", i) {
				t.Errorf("turn %d: %s", i, got)
			}
		}
		if got := l.Pop().Name; got != "b1" {
			t.Errorf("turn %d: %s", ageing, got)
		}
	})
}

// A change of an object whose siblings are being worked on is as urgent as they are, until all have come to rest.
func TestFamiliesShareTheirWork(t *testing.T) {
	r := &Runner[int]{keys: map[plan.Key]*state{}, works: works{}, shared: Shared{Explain: NewExplain()}}
	of := func(name string, owner types.UID) plan.Object {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		rs.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}}
		return rs
	}
	is := func(what, name string, changed plan.Object, want urgency) {
		t.Helper()
		if got := r.urgency(plan.Key{Name: name}, live, changed); got != want {
			t.Errorf("%s: urgency of %s is %+v, want %+v", what, name, got, want)
		}
	}
	first, second := time.Unix(100, 0), time.Unix(200, 0)
	calm, begunFirst := urgency{level: live}, urgency{begun, first.UnixNano()}
	a, b := r.state(plan.Key{Name: "a"}), r.state(plan.Key{Name: "b"})
	a.family, b.family = "web", "web"

	is("before", "b", of("b", "web"), calm)
	r.setReport(a, debounced{since: first})
	is("a has begun", "a", nil, begunFirst)
	is("a has begun", "b", of("b", "web"), begunFirst)
	is("a has begun", "b", of("pod-of-b", "web"), calm)
	is("a has begun", "c", of("c", "shop"), calm)
	r.setReport(b, debounced{since: second})
	is("both have", "b", nil, begunFirst)
	r.setReport(a, debounced{})
	is("a has reported", "a", nil, begunFirst)
	a.moving = true
	r.rested(a)
	is("a waits for what changes by itself", "a", nil, begunFirst)
	a.moving = false
	r.rested(a)
	is("a rests", "a", nil, calm)
	is("a rests", "b", nil, begunFirst)
	r.forget(plan.Key{Name: "b"}, false)
	is("b is gone", "a", of("a", "web"), calm)
	if len(r.works) != 0 {
		t.Errorf("left: %v", r.works)
	}
}

// Whatever is pushed, touched and popped: every key comes out once for each time it went in, and Len tells how many.
func TestLevelsLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, queued := newLevels(), map[string]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "key")
			u := urgency{level(rapid.IntRange(0, int(levelCount)-1).Draw(t, "level")), rapid.Int64Range(0, 3).Draw(t, "since")}
			switch {
			case rapid.Bool().Draw(t, "pop") && l.Len() > 0:
				got := l.Pop().Name
				if !queued[got] {
					t.Fatalf("%s was not queued", got)
				}
				delete(queued, got)
			case queued[name]:
				l.want(plan.Key{Name: name}, u)
				l.Touch(plan.Key{Name: name})
			default:
				l.want(plan.Key{Name: name}, u)
				l.Push(plan.Key{Name: name})
				queued[name] = true
			}
			if l.Len() != len(queued) {
				t.Fatalf("Len %d, want %d", l.Len(), len(queued))
			}
		}
	})
}

// Two controllers that write one object at the same time take turns: the second finds out before it asks the server.
func TestWritersOfOneObjectDoNotConflict(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		w.stop = cancel
		w.put("a", 1)
		informer := w.informer(ctx, &appsv1.ReplicaSet{})
		w.shared.Freshness.Use(setKind, informer.GetStore())
		synctest.Wait()
		set := informer.GetStore().List()[0].(*appsv1.ReplicaSet)
		var wg sync.WaitGroup
		stale := make(chan error, 20)
		for i := range 20 {
			e := New(w.shared, Access{API: w.memory}, Controller[toy]{Name: "toy"}).executor
			wg.Go(func() {
				after := set.DeepCopy()
				after.Status.Replicas = int32(i + 1)
				did := e.pass(ctx, set, &awaited{}).apply([]plan.Step{plan.Change{Old: set, New: after, Status: true}})
				if did.Err != nil {
					stale <- did.Err
				}
			})
		}
		wg.Wait()
		close(stale)
		n := 0
		for err := range stale {
			if n++; !errors.Is(err, plan.ErrStale) {
				t.Error(err)
			}
		}
		if n != 19 || w.count("refused") != 0 {
			t.Errorf("%d of 20 held themselves back, %d refused by the server", n, w.count("refused"))
		}
	})
}

func TestExecutorRefuses(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
	mine := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}}}
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q", UID: "q"}}
	relabelled := foreign.DeepCopy()
	relabelled.Labels = map[string]string{"a": "b"}
	for _, c := range []struct {
		name  string
		steps []plan.Step
	}{
		{"to delete what the owner does not control", []plan.Step{plan.Delete{Objects: []plan.Object{foreign}}}},
		{"to change what the owner does not control", []plan.Step{plan.Change{Old: foreign, New: relabelled}}},
		{"to create what the owner would not control", []plan.Step{plan.Create{Object: foreign}}},
		{"a second write to an object in one pass", []plan.Step{
			plan.Delete{Objects: []plan.Object{mine, mine}},
		}},
		{"a type that no controller writes", []plan.Step{plan.Delete{Objects: []plan.Object{&corev1.Secret{}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				e := New(w.shared, Access{API: w.memory}, Controller[toy]{Name: "toy"}).executor
				if did := e.pass(t.Context(), owner, &awaited{}).apply(c.steps); did.Err == nil {
					t.Errorf("done: %+v", did)
				}
				if n := len(w.writes()) - w.count("refused"); n != 0 {
					t.Errorf("wrote: %v", w.writes())
				}
			})
		})
	}
	t.Run("to say anything about a change that changes nothing", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			e := New(w.shared, Access{API: w.memory}, Controller[toy]{Name: "toy"}).executor
			did := e.pass(t.Context(), owner, &awaited{}).apply([]plan.Step{plan.Change{Old: mine, New: mine.DeepCopy()}})
			if did.Err != nil || did.Wrote() || len(w.writes()) != 0 {
				t.Errorf("%+v %v", did, w.writes())
			}
		})
	})
}

// RS-14, DEP-8: one live look at the owner, before the first adoption.
func TestAdoption(t *testing.T) {
	for _, c := range []struct {
		name  string
		live  func(*appsv1.ReplicaSet) // what the server holds
		adopt bool
	}{
		{"owner lives", func(*appsv1.ReplicaSet) {}, true},
		{"owner was replaced by a namesake", func(s *appsv1.ReplicaSet) { s.UID = "other" }, false},
		{"owner is being deleted", func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
		{"owner is gone", func(s *appsv1.ReplicaSet) { s.Name = "elsewhere" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
				onServer := owner.DeepCopy()
				c.live(onServer)
				k, _ := KindOf(owner)
				w.store(k, onServer)
				var each plan.Each
				for _, name := range []string{"p", "q"} {
					podKind, _ := KindOf(&corev1.Pod{})
					pod := w.store(podKind, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}).(*corev1.Pod)
					adopted := pod.DeepCopy()
					adopted.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}
					each.Sequences = append(each.Sequences, []plan.Step{plan.Change{Old: pod, New: adopted, Adopt: true}})
				}
				e := New(w.shared, Access{API: w.memory}, Controller[toy]{Name: "toy"}).executor
				did := e.pass(t.Context(), owner, &awaited{}).apply([]plan.Step{each})
				if got := w.count("patch Pod") == 2 && did.Err == nil; got != c.adopt {
					t.Errorf("adopted: %v (%+v, %v), want %v", got, did, w.writes(), c.adopt)
				}
			})
		})
	}
}

func TestPatchOf(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "set"}}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "other"}
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "pod", OwnerReferences: []metav1.OwnerReference{other}}}
	owned := orphan.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences, *metav1.NewControllerRef(owner, setKind))
	k, _ := KindOf(orphan)
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          string
	}{
		{"RS-22 adoption", orphan, owned, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,` +
			`"controller":true,"kind":"ReplicaSet","name":"web","uid":"set"}],"uid":"pod"}}`},
		{"RS-21 release", owned, orphan, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"set"}],"uid":"pod"}}`},
		{"nothing", owned, owned.DeepCopy(), ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := patchOf(k, c.before, c.after)
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestSettled(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"done", nil, true},
		{"conflict", apierrors.NewConflict(pods, "p", nil), true},
		{"forbidden", apierrors.NewForbidden(pods, "p", nil), true},
		{"too many requests", apierrors.NewTooManyRequests("wait", 1), true},
		{"server time-out", apierrors.NewTimeoutError("slow", 1), false},
		{"internal error", apierrors.NewInternalError(errors.New("etcd")), false},
		{"client time-out", context.DeadlineExceeded, false},
		{"broken connection", &net.OpError{Op: "read", Err: errors.New("reset")}, false},
		{"no connection", fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), true},
		{"stale", plan.ErrStale, true},
	} {
		if got := settled(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A panic in one of many parallel writes ends at the key, like any other.
func TestInParallelPassesPanicsOn(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "too much" {
			t.Errorf("recovered %v", cause)
		}
	}()
	_ = inParallel(100, func(i int) error {
		if i == 42 {
			panic("too much")
		}
		return nil
	})
	t.Error("the panic was lost")
}

// The real client, under the race detector: it writes to the objects that it encodes.
func TestParallelCreationsShareNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"kind":"Pod"`) {
			t.Errorf("body %s, %v", body, err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	api, err := NewAPI(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
	size := int32(200)
	owner.Spec.Replicas = &size
	w := &world{}
	w.lease.Store(true)
	e := New(Shared{Freshness: NewFreshness(), Lease: w, Explain: NewExplain()}, Access{API: api}, Controller[toy]{Name: "toy"}).executor
	if did := e.pass(t.Context(), owner, &awaited{}).apply(keepPods(toy{set: owner}).Steps); did.Err != nil || len(did.Results) != 200 {
		t.Errorf("%d results, %v", len(did.Results), did.Err)
	}
}

// Objects of a kind without namespaces are read without one (PGC-10).
func TestGetANode(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
	}))
	defer server.Close()
	api, err := NewAPI(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	k, _ := KindOf(&corev1.Node{})
	if o, err := api.Get(t.Context(), k, "", "n"); err != nil || o.GetName() != "n" || asked != "/api/v1/nodes/n" {
		t.Errorf("%v, %v at %s", o, err, asked)
	}
}

func TestInParallelKeepsTheFirstErrorInOrder(t *testing.T) {
	var mu sync.Mutex
	var called []int
	err := inParallel(500, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, i)
		if i%7 == 3 {
			return fmt.Errorf("error %d", i)
		}
		return nil
	})
	slices.Sort(called)
	if err == nil || err.Error() != "error 3" || len(called) != 500 || called[499] != 499 {
		t.Errorf("%v after %d calls", err, len(called))
	}
}

// PGC-13, PGC-18: a status may be written and the object then deleted in one pass, under the version just written.
func TestDeleteAfterStatusIsUnderTheNewVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k, _ := KindOf(&corev1.Pod{})
		pod := w.store(k, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}).(*corev1.Pod)
		failed := pod.DeepCopy()
		failed.Status.Phase = corev1.PodFailed
		e := New(w.shared, Access{API: w.memory}, Controller[toy]{Name: "toy"}).executor
		steps := []plan.Step{
			plan.Change{Old: pod, New: failed, Status: true},
			plan.Delete{Objects: []plan.Object{pod}, Version: true},
		}
		if did := e.pass(t.Context(), nil, &awaited{}).apply(steps); did.Err != nil || len(did.Results) != 2 {
			t.Errorf("%+v", did)
		}
		if got := w.writes(); !slices.Equal(got, []string{"patch Pod p", "delete Pod p"}) {
			t.Errorf("%v", got)
		}
	})
}
