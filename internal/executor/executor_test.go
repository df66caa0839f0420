package executor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
	setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

// bench is an executor in front of a server in memory.
type bench struct {
	*clienttest.Server
	*testing.T
	Config
	tracker *freshness.Tracker
	events  *record.FakeRecorder
	barrier freshness.Barrier
}

func newBench(t *testing.T) *bench {
	b := &bench{Server: clienttest.NewServer(), T: t, tracker: freshness.NewTracker(), events: record.NewFakeRecorder(1000)}
	b.Config = Config{Client: b.Server, Mapper: client.BuiltIns{}, Events: b.events, Tracker: b.tracker}
	return b
}

// apply carries out the steps for the owner with a new executor.
func (b *bench) apply(owner plan.Object, steps ...plan.Step) plan.Outcome {
	return New(b.Config).Begin(b.Context(), owner, &b.barrier).Apply(steps)
}

// put stores an object and returns it as it is then.
func put[T plan.Object](b *bench, o T) T {
	b.Helper()
	made, err := b.Put(o)
	if err != nil {
		b.Fatal(err)
	}
	return made.(T)
}

func (b *bench) wantLog(want ...string) {
	b.Helper()
	if got := b.Server.Log(); !slices.Equal(got, want) {
		b.Errorf("%q, want %q", got, want)
	}
}

// recorded returns the events that were recorded.
func (b *bench) recorded() (all []string) {
	for len(b.events.Events) > 0 {
		all = append(all, <-b.events.Events)
	}
	return all
}

// waiting returns the kind that the barrier waits for, with a cache of each kind that has come as far as the version.
func (b *bench) waiting(version string) string {
	var caches freshness.Caches
	for _, kind := range []schema.GroupVersionKind{podKind, setKind} {
		caches.Add(kind, &store{cache.NewStore(cache.MetaNamespaceKeyFunc), version})
	}
	return b.barrier.Check(caches).Missing.Kind
}

type store struct {
	cache.Store
	version string
}

func (s *store) LastStoreSyncResourceVersion() string { return s.version }

func newSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
}

func newPod(name string, owner *appsv1.ReplicaSet) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}
	}
	return p
}

func generated(owner *appsv1.ReplicaSet) *corev1.Pod {
	p := newPod("", owner)
	p.GenerateName = "a-"
	return p
}

func labelled(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Labels = map[string]string{"a": "b"}
	return p
}

var podEvents = plan.Events{
	Done:   plan.Event{Type: "Normal", Reason: "Done", Message: "Wrote {name}"},
	Failed: plan.Event{Type: "Warning", Reason: "Failed", Message: "Error: {error}"},
}

// RS-26, DS-28: batches of 1, 2, 4, ...; none after a failure. It makes no difference whether the objects differ.
func TestSlowStart(t *testing.T) {
	set := newSet()
	var different []plan.Object
	for i := range 100 {
		different = append(different, newPod(fmt.Sprint("p", i), set))
	}
	steps := map[string]plan.Step{
		"copies":            plan.Create{Object: generated(set), Count: 100},
		"different objects": plan.CreateAll{Objects: different},
	}
	for _, c := range []struct{ failAt, wantTries int }{{1, 1}, {2, 3}, {3, 3}, {4, 7}, {9, 15}} {
		for what, step := range steps {
			t.Run(fmt.Sprintf("failure at pod %d of %s", c.failAt, what), func(t *testing.T) {
				b := newBench(t)
				var tries atomic.Int32
				b.BeforeWrite(func(w clienttest.Write) error {
					if w.Kind == "Pod" && int(tries.Add(1)) == c.failAt {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, w.Key.Name, errors.New("exceeded quota"))
					}
					return nil
				})
				did := b.apply(set, step)
				if did.Err == nil || !apierrors.IsForbidden(did.Failed(plan.Created)) {
					t.Errorf("outcome: %+v", did)
				}
				if got := int(tries.Load()); got != c.wantTries || len(did.Results) != c.wantTries {
					t.Errorf("%d tries, %d results, want %d", got, len(did.Results), c.wantTries)
				}
			})
		}
	}
}

// After a step that takes long, the rest is planned anew, but for the events that tell of it, and further batches of creations.
func TestLongSteps(t *testing.T) {
	set := newSet()
	event := func() plan.Step { return plan.RecordEvent{Object: set, Event: podEvents.Done} }
	create := func(names ...string) (all plan.Each) {
		for _, name := range names {
			all.Sequences = append(all.Sequences, []plan.Step{plan.Each{}, plan.Create{Object: newPod(name, set)}})
		}
		return all
	}
	for name, c := range map[string]struct {
		steps  []plan.Step
		stale  bool
		pods   []string
		events int
	}{
		"a write":            {[]plan.Step{create("a"), plan.Change{Old: newPod("x", set), New: labelled(newPod("x", set))}}, true, []string{"a"}, 0},
		"events":             {[]plan.Step{create("a"), event(), event()}, false, []string{"a"}, 2},
		"events and a write": {[]plan.Step{create("a"), event(), plan.Delete{Objects: []plan.Object{newPod("x", set)}}}, true, []string{"a"}, 1},
		"batches":            {[]plan.Step{create("a"), create("b", "c"), event()}, false, []string{"a", "b", "c"}, 1},
		"batches of other things": {[]plan.Step{create("a"),
			plan.Each{Sequences: [][]plan.Step{{plan.Delete{Objects: []plan.Object{newPod("x", set)}}}}}}, true, []string{"a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				put(b, newPod("x", set))
				b.BeforeWrite(func(clienttest.Write) error { time.Sleep(longStep + 1); return nil })
				did := b.apply(set, c.steps...)
				if errors.Is(did.Err, plan.ErrStale) != c.stale || !c.stale && did.Err != nil || len(b.recorded()) != c.events {
					t.Errorf("%v, events %q", did.Err, b.recorded())
				}
				var want []string
				for _, pod := range c.pods {
					want = append(want, "create Pod "+pod)
				}
				if got := b.Server.Log(); !slices.Equal(slices.Sorted(slices.Values(got)), want) { // of a batch in any order
					t.Errorf("%q, want %q", got, want)
				}
			})
		})
	}
}

func TestCreateAll(t *testing.T) {
	b := newBench(t)
	set := newSet()
	if did := b.apply(set, plan.CreateAll{}, plan.CreateAll{Objects: []plan.Object{newPod("p", set), newPod("q", nil)}}); did.Err == nil ||
		did.Wrote() {
		t.Errorf("the owner does not control one of them: %+v", did)
	}
	did := b.apply(set, plan.CreateAll{Objects: []plan.Object{newPod("p", set), newPod("q", set)}, Events: podEvents})
	if did.Err != nil {
		t.Error(did.Err)
	}
	b.wantLog("create Pod p", "create Pod q")
	if got := b.recorded(); len(got) != 2 {
		t.Errorf("events: %v", got)
	}
}

// Two controllers that write one object at the same time take turns: the second finds out before it asks the server.
func TestWritersOfOneObjectDoNotConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		put(b, newSet())
		informer, err := b.NewInformer(ctx, &appsv1.ReplicaSet{})
		if err != nil {
			t.Fatal(err)
		}
		b.tracker.Add(setKind, informer.GetStore())
		synctest.Wait()
		set := informer.GetStore().List()[0].(*appsv1.ReplicaSet)
		b.Method = func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
		var wg sync.WaitGroup
		stale := make(chan error, 20)
		for i := range 20 {
			e := New(b.Config)
			wg.Go(func() {
				after := set.DeepCopy()
				after.Status.Replicas = int32(i + 1)
				steps := []plan.Step{plan.Change{Old: set, New: after, Subresource: plan.Status}}
				if did := e.Begin(ctx, set, &freshness.Barrier{}).Apply(steps); did.Err != nil {
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
		if n != 19 || b.CountWrites("refused") != 0 {
			t.Errorf("%d of 20 held themselves back, %d refused by the server", n, b.CountWrites("refused"))
		}
		cancel()
		synctest.Wait()
	})
}

func TestResults(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p, q := put(b, newPod("p", owner)), put(b, newPod("q", owner))
	did := b.apply(owner, plan.Create{Object: generated(owner)}, plan.Change{Old: p, New: labelled(p)},
		plan.Delete{Objects: []plan.Object{q}})
	if did.Err != nil || len(did.Results) != 3 {
		t.Fatalf("%+v", did)
	}
	made := &corev1.Pod{}
	m, _ := client.BuiltIn(podKind)
	if err := b.Get(t.Context(), m, plan.Key{Namespace: "ns", Name: "a-3"}, made); err != nil {
		t.Fatal(err)
	}
	for i, want := range []plan.Result{
		{Verb: plan.Created, Name: "a-3", UID: made.UID},
		{Verb: plan.Changed, Name: "p", UID: p.UID},
		{Verb: plan.Deleted, Name: "q"},
	} {
		if r := did.Results[i]; r.Verb != want.Verb || r.Name != want.Name || r.UID != want.UID || r.Err != nil || r.Object == nil {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	b.BeforeWrite(func(clienttest.Write) error { return errors.New("no") })
	if did := b.apply(owner, plan.Create{Object: generated(owner)}); did.Err == nil || did.Results[0].UID != "" ||
		did.Results[0].Name != "" {
		t.Errorf("failed: %+v", did)
	}
}

func TestRecordEvent(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	step := plan.RecordEvent{Object: newPod("p", owner), Event: plan.Event{Type: "Normal", Reason: "Seen", Message: "Seen as it is"}}
	did := b.apply(owner, step, plan.RecordEvent{Object: owner}, plan.Create{Object: generated(owner), Events: podEvents})
	if did.Err != nil || len(did.Results) != 1 {
		t.Errorf("%+v", did)
	}
	if got := b.recorded(); !slices.Equal(got, []string{"Normal Seen Seen as it is", "Normal Done Wrote a-1"}) {
		t.Errorf("%q", got)
	}
	b.Events = nil
	if did := b.apply(owner, step); did.Err != nil || did.Wrote() {
		t.Errorf("without a recorder: %+v", did)
	}
	b.Events = b.events
	if did := b.apply(nil, step, plan.Create{Object: newPod("n", nil), Events: podEvents}); did.Err != nil {
		t.Errorf("without an owner: %+v", did)
	}
	if got := b.recorded(); !slices.Equal(got, []string{"Normal Seen Seen as it is"}) {
		t.Errorf("without an owner: %q", got)
	}
}

// A change that was refused as a conflict is no error for people, and waits until the cache shows the reason.
func TestConflictIsStale(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	b.Method = func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
	p := put(b, newPod("p", owner))
	put(b, newPod("p", owner)) // by somebody else
	did := b.apply(owner, plan.Change{Old: p, New: labelled(p), Events: podEvents})
	if !errors.Is(did.Err, plan.ErrStale) || !apierrors.IsConflict(did.Err) || len(b.recorded()) != 0 || b.barrier.Empty() {
		t.Errorf("%+v", did)
	}
}

// notLeading is how the client's transport refuses a write for want of the lease.
func notLeading(clienttest.Write) error {
	return &url.Error{Op: "Post", URL: "https://api", Err: client.ErrNotLeading}
}

// LE-14: what was not sent for want of the lease is known not to be carried out. Nobody is told of it.
func TestWithoutTheLease(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p, q := put(b, newPod("p", owner)), put(b, newPod("q", owner))
	b.BeforeWrite(notLeading)
	b.Written = func(verb, resource, code string) { t.Errorf("written: %s %s %s", verb, resource, code) }
	for _, step := range []plan.Step{
		plan.Create{Object: generated(owner), Events: podEvents},
		plan.Change{Old: p, New: labelled(p), Events: podEvents},
		plan.Delete{Objects: []plan.Object{q}, Events: podEvents},
	} {
		did := b.apply(owner, step)
		if !errors.Is(did.Err, client.ErrNotLeading) || len(did.Results) != 1 || !Answered(did.Results[0].Err) || !Silent(did.Err) ||
			FromServer(did.Err) {
			t.Errorf("%T: %+v", step, did)
		}
	}
	if got := b.recorded(); len(got)+len(b.Server.Log()) != 0 || !b.barrier.Empty() {
		t.Errorf("%v %v", got, strings.Join(b.Server.Log(), ", "))
	}
}

func TestLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		e := New(b.Config)
		create := []plan.Step{plan.Create{Object: generated(nil)}}
		if !e.LastWrite().IsZero() {
			t.Error("something was written")
		}
		began := time.Now()
		e.Begin(t.Context(), nil, &b.barrier).Apply(create)
		time.Sleep(time.Second)
		debounced := e.Begin(t.Context(), nil, &b.barrier)
		debounced.Debounced = true
		debounced.Apply(create)
		if got := e.LastWrite(); !got.Equal(began) {
			t.Errorf("%v, want %v: a debounced report does not count", got, began)
		}
		b.BeforeWrite(notLeading)
		e.Begin(t.Context(), nil, &b.barrier).Apply(create)
		if got := e.LastWrite(); !got.Equal(began) {
			t.Errorf("%v, want %v: what was not sent does not count", got, began)
		}
		if e.InFlight() != 0 {
			t.Errorf("%d writes are under way", e.InFlight())
		}
	})
}

// slowDeletions are deletions that take a second each.
type slowDeletions struct{ *clienttest.Server }

func (s slowDeletions) Delete(ctx context.Context, m client.Mapping, key plan.Key, o metav1.DeleteOptions) error {
	time.Sleep(time.Second)
	return s.Server.Delete(ctx, m, key, o)
}

// Where more is to be written than may be under way, the writes to one namespace do not keep those to another one waiting.
func TestWritesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Client = slowDeletions{b.Server}
		e := New(b.Config)
		remove := func(namespace string, many int) time.Duration {
			var step plan.Delete
			for i := range many {
				step.Objects = append(step.Objects,
					put(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}}))
			}
			began := time.Now()
			if did := e.Begin(t.Context(), nil, &freshness.Barrier{}).Apply([]plan.Step{step}); did.Err != nil {
				t.Error(did.Err)
			}
			return time.Since(began)
		}
		const tenants, each = 8, 64
		var all sync.WaitGroup
		began := time.Now()
		for i := range tenants {
			all.Go(func() { remove(fmt.Sprint("large-", i), each) })
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		if n := e.InFlight(); n != parallelWrites*3/2 { // the first one has all slots, and half of them do not count
			t.Errorf("%d writes are under way", n)
		}
		if took := remove("small", 1); took > 2*time.Second {
			t.Errorf("one write took %v", took)
		}
		all.Wait()
		if took := time.Since(began); took > (tenants*each/parallelWrites+2)*time.Second {
			t.Errorf("all took %v", took)
		}
	})
}
