package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// flood plays a tenant that has many keys queued when another one comes with few. A reconcile takes 10 ms, and there is one worker.
type flood struct {
	moving bool // the work on the keys of the first tenant goes on and on

	mu    sync.Mutex
	began time.Time                // when the second tenant has come
	done  map[string]time.Duration // when each key of the second tenant was first reconciled, after that
	first int                      // reconciles for the first tenant
}

const (
	keysOfTheFirst  = 10_000
	keysOfTheSecond = 8
	costOfAKey      = 10 * time.Millisecond
)

func tenant(namespace, owner string, i, version int) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint(owner, "-", i), UID: types.UID(fmt.Sprint(namespace, owner, i)),
		ResourceVersion: strconv.Itoa(version),
	}}
	if owner != "" {
		o.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	return o
}

func (f *flood) observe(_ context.Context, r Request[int]) (Observation[*appsv1.ReplicaSet, int], error) {
	time.Sleep(costOfAKey)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.second(r.Key) {
		f.first++
	} else if _, known := f.done[r.Key.Name]; !known {
		f.done[r.Key.Name] = time.Since(f.began)
	}
	return Observation[*appsv1.ReplicaSet, int]{Exists: true,
		Snapshot: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.Key.Namespace, Name: r.Key.Name}}}, nil
}

func (f *flood) second(key plan.Key) bool { return key.Namespace == "second" || key.Name[0] == 's' }

func (f *flood) report(_ time.Time, s *appsv1.ReplicaSet, _ plan.Outcome) plan.Plan {
	if !f.moving || f.second(plan.KeyOf(s)) {
		return plan.Plan{}
	}
	event := plan.Event{Reason: "Moving", Message: time.Now().String()} // in place of a write, for which there is no object
	return plan.Plan{Steps: []plan.Step{plan.RecordEvent{Object: s, Event: event}}, When: plan.Progress(10), Progressing: true,
		Requeue: time.Second}
}

// slowest plays it, and returns when the last key of the second tenant was reconciled, and how many of the first had been before that.
func (f *flood) slowest(t *testing.T, w *world, namespace, owner string) (slowest time.Duration, others int) {
	f.done = map[string]time.Duration{}
	runner := New(w.shared, Access{Client: w.Server}, Controller[*appsv1.ReplicaSet, struct{}, int]{
		Name: "toy", Workers: 1, Observe: f.observe, Plan: PlanOnly(func(time.Time, *appsv1.ReplicaSet) plan.Plan { return plan.Plan{} }),
		Report: ReportOnly[*appsv1.ReplicaSet, struct{}](f.report), Owner: func(s *appsv1.ReplicaSet) plan.Object { return s },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	w.settle()
	handler := runner.handler(Watch{Enqueues: itself})
	for i := range keysOfTheFirst {
		handler.OnUpdate(tenant("first", "first", i, 1), tenant("first", "first", i, 2))
	}
	before := time.Second
	if f.moving {
		before = keysOfTheFirst * costOfAKey // each was reconciled once, so that its work is in progress
	}
	time.Sleep(before)
	f.mu.Lock()
	f.began = time.Now()
	served := f.first
	f.mu.Unlock()
	for i := range keysOfTheSecond {
		handler.OnUpdate(tenant(namespace, owner, i, 1), tenant(namespace, owner, i, 2))
	}
	if wait := runner.Statuses()[0].LongestWait; wait < before/2 {
		t.Errorf("the longest wait is %v, after %v", wait, before)
	}
	time.Sleep(5 * time.Second)
	f.mu.Lock()
	others = f.first - served
	f.mu.Unlock()
	if !f.moving {
		time.Sleep(keysOfTheFirst * costOfAKey)
		f.mu.Lock()
		first := f.first
		f.mu.Unlock()
		if first != keysOfTheFirst || runner.Statuses()[0].LongestWait != 0 {
			t.Errorf("%d keys of the first tenant are done", first)
		}
	}
	cancel()
	if err := <-ended; err != nil || len(f.done) != keysOfTheSecond {
		t.Fatalf("%d of %d keys were reconciled: %v", len(f.done), keysOfTheSecond, err)
	}
	for _, after := range f.done {
		slowest = max(slowest, after)
	}
	return slowest, others
}

// A tenant that has 10,000 keys queued does not keep another one waiting, and is not slower for that than by the keys of the other one.
func TestATenantDoesNotKeepAnotherWaiting(t *testing.T) {
	for _, c := range []struct {
		name             string
		flood            *flood
		namespace, owner string
		within           time.Duration
	}{
		{"in another namespace", &flood{}, "second", "", 200 * time.Millisecond},
		{"in the same namespace, with another owner", &flood{}, "first", "second", 200 * time.Millisecond},
		// Work in progress comes before all else, so that the other tenant has every second of the turns of what has waited longest.
		{"while the work of the first goes on", &flood{moving: true}, "second", "", 2 * 16 * (keysOfTheSecond + 1) * costOfAKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				slowest, others := c.flood.slowest(t, w, c.namespace, c.owner)
				t.Logf("%d keys beside %d were reconciled within %v", keysOfTheSecond, keysOfTheFirst, slowest)
				if slowest > c.within {
					t.Errorf("after %v, want %v", slowest, c.within)
				}
				if want := int(5*time.Second/costOfAKey) - keysOfTheSecond - 1; others < want {
					t.Errorf("%d keys of the first tenant meanwhile, want %d", others, want)
				}
			})
		})
	}
}
