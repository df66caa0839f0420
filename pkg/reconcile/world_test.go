package reconcile

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
	setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	pods, _ = client.BuiltIn(podKind)
	sets, _ = client.BuiltIn(setKind)
)

// world is an API server in memory with one toy controller in front of it, which keeps as many pods as a ReplicaSet asks for
// and reports how many there are.
type world struct {
	*clienttest.Server
	t        *testing.T
	runner   *Runner[toy, struct{}, int]
	shared   Shared
	events   *record.FakeRecorder
	panics   atomic.Int32
	debounce time.Duration // of reports
	// until a report that writes nothing has more to say; zero: only an event leads to that
	due        time.Duration
	lag        func(ctx context.Context) error       // before each creation; nil: none
	beforeList func()                                // before each comparison of a cache with the server; nil: nothing
	decide     func(s toy) plan.Plan                 // nil: keep pods
	remember   func(s toy, r Request[int]) *int      // nil: nothing
	adjust     func(*Controller[toy, struct{}, int]) // before the controller runs; nil: as it is
	access     func(*Access)                         // likewise
	stop       func()
	safe       bool // informers are as the factory of the product makes them

	mu      sync.Mutex
	decided []Decision     // what the hook was told
	counts  map[string]int // of what the other hooks were told
	asked   []Request[int] // what Observe was told
}

// toy is the snapshot of the toy controller.
type toy struct {
	set   *appsv1.ReplicaSet
	pods  []*corev1.Pod
	proof Proof
}

// inBubble runs the test in virtual time, and ends all goroutines.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Server: clienttest.NewServer(), t: t, events: record.NewFakeRecorder(100000), counts: map[string]int{}}
		w.shared = Shared{Tracker: freshness.NewTracker(), Mapper: client.BuiltIns{}}
		test(t, w)
		if w.stop != nil {
			w.stop()
		}
		synctest.Wait()
	})
}

// start runs the controller, as a process does that has just become the leader.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.lead(ctx, cancel, w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{}))
	w.settle()
}

func (w *world) informer(ctx context.Context, example plan.Object) cache.SharedIndexInformer {
	w.t.Helper()
	informer, err := w.NewInformer(ctx, example)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.safe {
		return panics.NewInformer(informer)
	}
	return informer
}

// lead runs the controller with these caches until ctx, which cancel ends, has ended.
func (w *world) lead(ctx context.Context, cancel func(), sets, pods cache.SharedIndexInformer) {
	w.runner = w.newRunner(sets, pods)
	w.again(ctx, cancel)
}

// again runs the runner for a term.
func (w *world) again(ctx context.Context, cancel func()) {
	done := make(chan error)
	go func() { done <- w.runner.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		w.stop = nil
	}
}

// keepCaches runs the controller for a first term, with caches that outlive it. The returned function stops them.
func (w *world) keepCaches() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.runner = w.newRunner(w.informer(ctx, &appsv1.ReplicaSet{}), w.informer(ctx, &corev1.Pod{}))
	w.nextTerm()
	w.settle()
	return func() {
		w.stop()
		cancel()
	}
}

// nextTerm runs the controller once more.
func (w *world) nextTerm() { w.again(context.WithCancel(context.Background())) }

func (w *world) newRunner(sets, pods cache.SharedIndexInformer) *Runner[toy, struct{}, int] {
	c, client := w.controller(sets, pods), &slowClient{w.Server, w.lag, w.beforeList}
	access := Access{Client: client, Events: w.events, Hooks: w.hooks(), Method: method}
	w.shared.Verifier = client
	if w.adjust != nil {
		w.adjust(&c)
	}
	if w.access != nil {
		w.access(&access)
	}
	return New(w.shared, access, c)
}

// method: the status of ReplicaSets is updated whole, and all else patched.
func method(resource schema.GroupResource, subresource string) client.Method {
	if resource.Resource == "replicasets" && subresource == plan.Status {
		return client.MethodUpdate
	}
	return client.MethodPatch
}

// slowClient is a client as a process has it: each request ends in time, and is progress. Its creations and its live lists can
// take time.
type slowClient struct {
	*clienttest.Server
	lag        func(ctx context.Context) error
	beforeList func()
}

func (c *slowClient) Create(ctx context.Context, m client.Mapping, o plan.Object, opts client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	defer queue.Progress(ctx)
	ctx, cancel := context.WithTimeout(ctx, client.RequestTimeout)
	defer cancel()
	if c.lag != nil {
		if err := c.lag(ctx); err != nil {
			return nil, err
		}
	}
	return c.Server.Create(ctx, m, o, opts)
}

func (c *slowClient) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	defer queue.Progress(ctx)
	if c.beforeList != nil && o.Limit == 0 { // with a limit, it is not the objects that are asked for
		c.beforeList()
	}
	return c.Server.List(ctx, m, namespace, o, into)
}

// hooks count what the runner does.
func (w *world) hooks() Hooks {
	return Hooks{
		Reconciled: func(result Result, _ time.Duration) {
			if result == Panicked {
				w.panics.Add(1)
			}
			w.tally(string(result))
		},
		Retry: func() { w.tally("retry") },
		Write: func(verb, resource, code string) { w.tally(verb + " " + resource + " " + code) },
		Stale: func(resource schema.GroupResource) { w.tally("stale " + resource.String()) },
		Decided: func(d Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided = append(w.decided, d)
		},
	}
}

func (w *world) tally(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

// requests returns what Observe was told, and forgets it.
func (w *world) requests() (asked []Request[int]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked, w.asked = w.asked, nil
	return asked
}

func (w *world) settle() {
	time.Sleep(300 * time.Millisecond) // virtual: retries and timers below that have run
	synctest.Wait()
}

func (w *world) controller(sets, pods cache.SharedIndexInformer) Controller[toy, struct{}, int] {
	return Controller[toy, struct{}, int]{
		Name: "toy", Workers: 3, Explained: []string{"ReplicaSet"},
		Watches: []Watch{
			{Kind: setKind, Informer: sets, Resync: true, Enqueues: itself},
			{Kind: podKind, Informer: pods, Enqueues: controllerKey},
		},
		Observe: func(_ context.Context, r Request[int]) (Observation[toy, int], error) {
			return w.observe(r, sets, pods)
		},
		Prove: func(o Observation[toy, int], proof Proof) Observation[toy, int] {
			o.Snapshot.proof = proof
			return o
		},
		Owner:   func(s toy) plan.Object { return s.set },
		Subject: func(s toy) types.UID { return s.set.UID },
		Plan: PlanOnly(func(_ time.Time, s toy) plan.Plan {
			if w.decide != nil {
				return w.decide(s)
			}
			return keepPods(s)
		}),
		Report: func(_ time.Time, s toy, _ struct{}, did plan.Outcome) plan.Plan {
			status := s.set.DeepCopy()
			status.Status.Replicas = int32(len(s.pods))
			if status.Status.Replicas == s.set.Status.Replicas {
				return plan.Plan{Requeue: w.due}
			}
			return plan.Plan{Steps: []plan.Step{plan.Change{Old: s.set, New: status, Subresource: plan.Status}},
				When: plan.When{Quiet: min(w.debounce, quietTime), Longest: w.debounce}}
		},
		Live: func(s toy) []Live {
			return []Live{{Kind: podKind, Namespace: s.set.Namespace, Selector: labels.Everything(), Cached: objects(s.pods)}}
		},
	}
}

func (w *world) observe(r Request[int], sets, pods cache.SharedIndexInformer) (o Observation[toy, int], err error) {
	w.mu.Lock()
	w.asked = append(w.asked, r)
	w.mu.Unlock()
	set, ok, err := sets.GetStore().GetByKey(r.Key.String())
	if !ok || err != nil {
		return o, err
	}
	s := toy{set: set.(*appsv1.ReplicaSet)}
	for _, p := range pods.GetStore().List() {
		if p := p.(*corev1.Pod); metav1.IsControlledBy(p, s.set) && podutil.Active(p) {
			s.pods = append(s.pods, p)
		}
	}
	slices.SortFunc(s.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	o = Observation[toy, int]{Exists: true, Snapshot: s}
	if w.remember != nil {
		o.Memory = w.remember(s, r)
	}
	return o, nil
}

// itself enqueues the key that is named after the object.
func itself(before, after plan.Object) []plan.Key {
	if after == nil {
		after = before
	}
	return []plan.Key{plan.KeyOf(after)}
}

// controllerKey enqueues the key that is named after the object's controlling owner.
func controllerKey(before, after plan.Object) []plan.Key {
	if after == nil {
		after = before
	}
	if ref := metav1.GetControllerOf(after); ref != nil {
		return []plan.Key{{Namespace: after.GetNamespace(), Name: ref.Name}}
	}
	return nil
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

// nothing decides to write nothing.
func nothing(toy) plan.Plan { return plan.Plan{} }

// get reads a ReplicaSet.
func (w *world) get(name string) (*appsv1.ReplicaSet, error) {
	set := &appsv1.ReplicaSet{}
	return set, w.Get(context.Background(), sets, plan.Key{Namespace: "ns", Name: name}, set)
}

// put creates or updates a ReplicaSet from outside.
func (w *world) put(name string, replicas int32) {
	w.t.Helper()
	set, err := w.get(name)
	if apierrors.IsNotFound(err) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		set.Spec.Replicas = &replicas
		_, err = w.Create(context.Background(), sets, set, client.WriteOptions{})
	} else if err == nil {
		set.Spec.Replicas = &replicas
		_, err = w.Update(context.Background(), sets, set, client.WriteOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes a ReplicaSet from outside.
func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.Delete(context.Background(), sets, plan.Key{Namespace: "ns", Name: name}, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// putPods creates pods of a ReplicaSet from outside, as a previous leader has.
func (w *world) putPods(set string, names ...string) {
	w.t.Helper()
	owner, err := w.get(set)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}}}
		if _, err := w.Create(context.Background(), pods, pod, client.WriteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) wantPods(n int) {
	w.t.Helper()
	if got := w.Names(podKind); len(got) != n {
		w.t.Fatalf("want %d pods, got %v\nwrites: %s", n, got, strings.Join(w.Log(), "\n"))
	}
}

// wantError checks the error that is recorded of the ReplicaSet a.
func (w *world) wantError(want string) {
	w.t.Helper()
	if record, _ := w.runner.explained.Get(plan.Key{Namespace: "ns", Name: "a"}); record.Error != want {
		w.t.Errorf("%q, want %q", record.Error, want)
	}
}

func (w *world) status() Status { return w.runner.Statuses()[0] }
