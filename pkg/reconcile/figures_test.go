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

// rollouts play rollouts of two ReplicaSets each, which work in turns, with one worker.
type rollouts struct {
	mu       sync.Mutex
	steps    map[string]int // of each rollout so far
	finished map[string]time.Duration
	handler  interface{ OnUpdate(before, after any) }
	began    time.Time
	grouped  bool // the ReplicaSets have an owner in common
}

const stepsOfARollout = 20

// set is one of the two ReplicaSets of a rollout, 0 or 1.
func (r *rollouts) set(rollout string, n, version int) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(rollout, "-", n), ResourceVersion: strconv.Itoa(version)}}
	if r.grouped {
		o.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(rollout), Controller: ptr.To(true)}}
	}
	return o
}

// changed says that it is the turn of a ReplicaSet.
func (r *rollouts) changed(rollout string) {
	r.mu.Lock()
	step := r.steps[rollout]
	r.mu.Unlock()
	r.handler.OnUpdate(r.set(rollout, step%2, step), r.set(rollout, step%2, step+1))
}

// observe takes 5 ms, and the step that is due; the other ReplicaSet is told of it 2 ms later.
func (r *rollouts) observe(_ context.Context, request Request[int]) (Observation[*appsv1.ReplicaSet, int], error) {
	time.Sleep(5 * time.Millisecond)
	rollout, n := request.Key.Name[:3], int(request.Key.Name[4]-'0')
	r.mu.Lock()
	defer r.mu.Unlock()
	if step := r.steps[rollout]; step < stepsOfARollout && step%2 == n {
		r.steps[rollout]++
		if step+1 == stepsOfARollout {
			r.finished[rollout] = time.Since(r.began)
		} else {
			time.AfterFunc(2*time.Millisecond, func() { r.changed(rollout) })
		}
	}
	return Observation[*appsv1.ReplicaSet, int]{Exists: true, Snapshot: r.set(rollout, n, r.steps[rollout])}, nil
}

// report waits for a newer one while the rollout goes on.
func (r *rollouts) report(_ time.Time, s *appsv1.ReplicaSet, _ plan.Outcome) plan.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps[s.Name[:3]] == stepsOfARollout {
		return plan.Plan{}
	}
	event := plan.Event{Reason: "Step", Message: fmt.Sprint(r.steps[s.Name[:3]])} // in place of a write, for which there is no object
	return plan.Plan{Steps: []plan.Step{plan.RecordEvent{Object: s, Event: event}}, When: plan.Progress(10), Progressing: true}
}

// mean plays so many rollouts that begin together, and returns when they have ended on average.
func (r *rollouts) mean(t *testing.T, w *world, many int) (mean time.Duration) {
	r.steps, r.finished = map[string]int{}, map[string]time.Duration{}
	runner := New(w.shared, Access{Client: w.Server}, Controller[*appsv1.ReplicaSet, struct{}, int]{
		Name: "toy", Workers: 1, Observe: r.observe, Plan: PlanOnly(func(time.Time, *appsv1.ReplicaSet) plan.Plan { return plan.Plan{} }),
		Report: ReportOnly[*appsv1.ReplicaSet, struct{}](r.report), Owner: func(s *appsv1.ReplicaSet) plan.Object { return s },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	w.settle()
	r.handler, r.began = runner.handler(Watch{Enqueues: itself}), time.Now()
	for i := range many {
		r.changed(fmt.Sprintf("%03d", i))
	}
	time.Sleep(10 * time.Minute)
	cancel()
	if err := <-ended; err != nil || len(r.finished) != many {
		t.Fatalf("%d of %d rollouts have ended: %v", len(r.finished), many, err)
	}
	for _, end := range r.finished {
		mean += end / time.Duration(many)
	}
	return mean
}

// Rollouts that begin together end one after the other, and not all at the end, because what belongs together shares the time at which
// its work began.
func TestWorkGroupsEndOneAfterTheOther(t *testing.T) {
	means := map[bool]time.Duration{}
	for _, grouped := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) {
			means[grouped] = (&rollouts{grouped: grouped}).mean(t, w, 40)
		})
	}
	t.Logf("40 rollouts of %d steps end after %v on average with work groups, after %v without", stepsOfARollout, means[true], means[false])
	if means[true] > means[false]*17/20 {
		t.Errorf("work groups do not pay: %v with, %v without", means[true], means[false])
	}
}

// besideMany plays a key that takes ten rounds of 10 ms, each of which begins 10 ms after the one before, and 200 others that take two,
// with one worker. It returns after what time the key is done. Its rounds count as work in progress, or they do not.
func besideMany(t *testing.T, w *world, progressing bool) (took time.Duration) {
	began, rounds := time.Now(), map[plan.Key]int{}
	large := plan.Key{Name: "large"}
	of := func(k plan.Key) int {
		if k == large {
			return 10
		}
		return 2
	}
	runner := New(w.shared, Access{Client: w.Server}, Controller[plan.Key, struct{}, int]{
		Name: "toy", Workers: 1,
		Source: func(_ context.Context, enqueue func(plan.Key)) {
			enqueue(large)
			for i := range 200 {
				enqueue(plan.Key{Name: fmt.Sprint(i)})
			}
		},
		Observe: func(_ context.Context, r Request[int]) (Observation[plan.Key, int], error) {
			time.Sleep(10 * time.Millisecond)
			if rounds[r.Key]++; r.Key == large && rounds[large] == of(large) {
				took = time.Since(began)
			}
			return Observation[plan.Key, int]{Exists: true, Snapshot: r.Key, Memory: new(int)}, nil
		},
		Plan: PlanOnly(func(_ time.Time, k plan.Key) plan.Plan {
			if rounds[k] >= of(k) {
				return plan.Plan{}
			}
			return plan.Plan{Requeue: 10 * time.Millisecond}
		}),
		Report: ReportOnly[plan.Key, struct{}](func(_ time.Time, k plan.Key, _ plan.Outcome) plan.Plan {
			return plan.Plan{Progressing: progressing && rounds[k] < of(k)}
		}),
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := runner.Run(ctx); err != nil || took == 0 {
		t.Fatalf("the key is not done: %v", err)
	}
	return took
}

// Rounds of work that is in progress go before work that is new.
func TestRoundsInProgressGoFirst(t *testing.T) {
	took := map[bool]time.Duration{}
	for _, progressing := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) { took[progressing] = besideMany(t, w, progressing) })
	}
	t.Logf("a key of ten rounds beside 200 of two is done after %v if its rounds count as work in progress, after %v otherwise", took[true],
		took[false])
	if took[true] > took[false]/5 {
		t.Errorf("it does not pay: %v with, %v without", took[true], took[false])
	}
}

// besideALargeKey plays 10 s with one worker, in which a key that takes 20 ms changes all the time, and a small one every 5 ms. It
// returns how often the large key was reconciled, and how long the small ones have waited on average. The time of the large key counts
// as its cost, or it does not, as if it were that of writes.
func besideALargeKey(t *testing.T, w *world, counts bool) (large int, waited time.Duration) {
	const slow = 20 * time.Millisecond
	var mu sync.Mutex
	added, waits := map[plan.Key]time.Time{}, []time.Duration{}
	runner := New(w.shared, Access{Client: w.Server}, Controller[plan.Key, struct{}, int]{
		Name: "toy", Workers: 1,
		Source: func(ctx context.Context, enqueue func(plan.Key)) {
			for i := 0; ctx.Err() == nil; i++ {
				enqueue(plan.Key{Name: "large"})
				if i%5 == 0 {
					k := plan.Key{Name: fmt.Sprint(i)}
					mu.Lock()
					added[k] = time.Now()
					mu.Unlock()
					enqueue(k)
				}
				time.Sleep(time.Millisecond)
			}
		},
		Observe: func(_ context.Context, r Request[int]) (Observation[plan.Key, int], error) {
			if r.Key.Name != "large" {
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(added[r.Key]))
			} else if large++; counts {
				time.Sleep(slow)
			}
			return Observation[plan.Key, int]{Exists: true, Snapshot: r.Key}, nil
		},
		Plan: PlanOnly(func(time.Time, plan.Key) plan.Plan { return plan.Plan{} }),
		Applied: func(_ context.Context, k plan.Key, _ struct{}, _, _ plan.Outcome) {
			if k.Name == "large" && !counts {
				time.Sleep(slow)
			}
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := runner.Run(ctx); err != nil || len(waits) < 1900 {
		t.Fatalf("%d small keys: %v", len(waits), err)
	}
	for _, wait := range waits {
		waited += wait / time.Duration(len(waits))
	}
	return large, waited
}

// A key that is expensive and changes all the time leaves time for others, and costs a sixth of the CPU.
func TestCooldownLeavesTimeForOthers(t *testing.T) {
	reconciles, waits := map[bool]int{}, map[bool]time.Duration{}
	for _, cools := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) { reconciles[cools], waits[cools] = besideALargeKey(t, w, cools) })
	}
	t.Logf("in 10 s, a large key is reconciled %d times with a cooldown, %d without; small keys wait for %v and %v on average",
		reconciles[true], reconciles[false], waits[true], waits[false])
	if reconciles[true]*4 > reconciles[false] || waits[true]*3 > waits[false] {
		t.Errorf("the cooldown does not pay: %v reconciles, %v", reconciles, waits)
	}
}
