package reconcile

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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// uncached is a controller without watches, of which the test enqueues the keys. Each is a pod.
type uncached struct {
	*TypedRunner[incarnation, *corev1.Pod, struct{}, int]
	server *clienttest.Server
	events *record.FakeRecorder

	mu       sync.Mutex
	observed []TypedRequest[incarnation, int]
}

// asked returns what Observe was asked for so far.
func (u *uncached) asked() []TypedRequest[incarnation, int] {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.observed)
}

func pod(uid types.UID) incarnation { return incarnation{plan.Key{Namespace: "ns", Name: "a"}, uid} }

// runUncached runs it in virtual time. Its plan is what decide says; nil: nothing.
func runUncached(
	t *testing.T, decide func(*corev1.Pod) plan.Plan,
	adjust func(*TypedController[incarnation, *corev1.Pod, struct{}, int]), test func(u *uncached),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &uncached{server: clienttest.NewServer(), events: record.NewFakeRecorder(100)}
		c := TypedController[incarnation, *corev1.Pod, struct{}, int]{
			Name: "uncached", Workers: 1, SkipVerification: true, KeyName: func(k incarnation) plan.Key { return k.name },
			Observe: func(_ context.Context, r TypedRequest[incarnation, int]) (Observation[*corev1.Pod, int], error) {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.observed = append(u.observed, r)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Key.name.Namespace, Name: r.Key.name.Name, UID: r.Key.uid}}
				return Observation[*corev1.Pod, int]{Exists: true, Snapshot: pod}, nil
			},
			Plan: PlanOnly(func(_ time.Time, p *corev1.Pod) plan.Plan {
				if decide == nil {
					return plan.Plan{}
				}
				return decide(p)
			}),
		}
		if adjust != nil {
			adjust(&c)
		}
		shared := Shared{Tracker: freshness.NewTracker(), Mapper: client.BuiltIns{}}
		u.TypedRunner = NewTyped(shared, Access{Client: u.server, Events: u.events}, c)
		u.Enqueue(pod("too early"), "", 0)
		clienttest.Run(t, u.Run, func() { test(u) })
		u.Enqueue(pod("too late"), "", 0)
		for _, r := range u.asked() {
			if strings.HasPrefix(string(r.Key.uid), "too") {
				t.Errorf("%s is reconciled", r.Key.uid)
			}
		}
	})
}

func deletePod(p *corev1.Pod) plan.Plan {
	return plan.Plan{Why: "deletes it", Steps: []plan.Step{plan.Delete{Objects: []plan.Object{p}, Unowned: true}}}
}

// What is enqueued from outside comes when it is due. Keys of one owner do not keep those of another one waiting, in the same namespace
// or in another one.
func TestEnqueueFromOutside(t *testing.T) {
	runUncached(t, nil, nil, func(u *uncached) {
		u.Enqueue(pod("now"), "", 0)
		u.Enqueue(pod("later"), "", time.Minute)
		time.Sleep(time.Minute - time.Second)
		if n := len(u.asked()); n != 1 || u.asked()[0].Key.uid != "now" {
			t.Errorf("asked for %v", u.asked())
		}
		time.Sleep(2 * time.Second)
		if n := len(u.asked()); n != 2 {
			t.Errorf("asked for %v", u.asked())
		}
	})
	const many, few, cost = 10_000, 8, 10 * time.Millisecond
	for where, key := range map[string]incarnation{
		"another namespace": {name: plan.Key{Namespace: "b"}}, "the same namespace": {name: plan.Key{Namespace: "a"}},
	} {
		t.Run(where, func(t *testing.T) {
			var mu sync.Mutex
			var last time.Time
			slow := func(p *corev1.Pod) plan.Plan {
				time.Sleep(cost)
				if mu.Lock(); p.UID[0] == 's' {
					last = time.Now()
				}
				mu.Unlock()
				return plan.Plan{}
			}
			runUncached(t, slow, nil, func(u *uncached) {
				for i := range many {
					u.Enqueue(incarnation{plan.Key{Namespace: "a"}, types.UID(fmt.Sprint("f", i))}, "first", 0)
				}
				time.Sleep(time.Second)
				began := time.Now()
				for i := range few {
					key.uid = types.UID(fmt.Sprint("s", i))
					u.Enqueue(key, "second", 0)
				}
				time.Sleep((many + few) * cost)
				if mu.Lock(); last.Sub(began) > cost+2*few*cost+cost || last.IsZero() || len(u.asked()) != many+few {
					t.Errorf("after %v; %d are done", last.Sub(began), len(u.asked()))
				}
				mu.Unlock()
			})
		})
	}
}

// A key without namespace that hangs while another one waits is given up: it has failed, and is tried again with as much time as it needs.
func TestAKeyThatHangsIsGivenUp(t *testing.T) {
	hangs, waits := incarnation{plan.Key{Name: "a"}, "hangs"}, incarnation{plan.Key{Name: "b"}, "waits"}
	runUncached(t, nil, func(c *TypedController[incarnation, *corev1.Pod, struct{}, int]) {
		observe := c.Observe
		c.Observe = func(ctx context.Context, r TypedRequest[incarnation, int]) (Observation[*corev1.Pod, int], error) {
			o, err := observe(ctx, r)
			if r.Key != hangs {
				return o, err
			}
			select {
			case <-ctx.Done():
				return o, fmt.Errorf("read: %w", ctx.Err())
			case <-time.After(time.Minute):
				return o, nil
			}
		}
	}, func(u *uncached) {
		u.Enqueue(hangs, "", 0)
		synctest.Wait()
		u.Enqueue(waits, "", 0)
		time.Sleep(10 * time.Second)
		u.Enqueue(waits, "", 0)
		time.Sleep(time.Minute)
		var got []string
		for _, r := range u.asked() {
			got = append(got, fmt.Sprint(r.Key.uid, " ", r.Failures))
		}
		if want := []string{"hangs 0", "waits 0", "hangs 1", "waits 0"}; !slices.Equal(got, want) {
			t.Errorf("reconciled with so many failures before: %v, want %v", got, want)
		}
	})
}

// A controller without caches has nothing to wait for, so nothing is remembered of a key that is done, however slow it was, and whether its
// write was answered or not. What is stale is retried with backoff, as no event tells when to.
func TestKeysWithoutCaches(t *testing.T) {
	for name, c := range map[string]struct {
		errs  []error // of the first writes
		tries int
		after time.Duration
	}{
		"done":         {nil, 1, 0},
		"not answered": {[]error{errors.New("broken")}, 2, 10 * time.Millisecond},
		"stale":        {[]error{plan.ErrStale, plan.ErrStale, plan.ErrStale}, 4, 40 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			decide := func(p *corev1.Pod) plan.Plan {
				time.Sleep(time.Millisecond)
				return deletePod(p)
			}
			runUncached(t, decide, nil, func(u *uncached) {
				u.server.BeforeWrite(func(clienttest.Write) (err error) {
					if len(c.errs) > 0 {
						err, c.errs = c.errs[0], c.errs[1:]
					}
					return err
				})
				u.Enqueue(pod("1"), "", 0)
				time.Sleep(10*time.Millisecond + c.after)
				if n := u.keys.Len(); len(u.asked()) != c.tries || n != 0 {
					t.Errorf("%d tries; %d keys are remembered", len(u.asked()), n)
				}
			})
		})
	}
}

// Where nearly all failures are of keys that come a moment too early, people are told of those that last. Observe is told how many
// there were.
func TestFailuresThatLast(t *testing.T) {
	lasting := func(c *TypedController[incarnation, *corev1.Pod, struct{}, int]) { c.LogAfter = 3 }
	runUncached(t, deletePod, lasting, func(u *uncached) {
		u.server.BeforeWrite(func(clienttest.Write) error { return errors.New("refused") })
		u.Enqueue(pod("1"), "", 0)
		for failures := 1; failures < 6; failures++ {
			time.Sleep(queue.Backoff(failures-1, nil) / 100)
			synctest.Wait()
			if n := len(u.asked()); n != failures || u.asked()[n-1].Failures != failures-1 {
				t.Fatalf("%d reconciles, the last one with %d failures", n, u.asked()[n-1].Failures)
			}
			if n := len(u.events.Events); n != max(0, failures-3) {
				t.Errorf("%d events after %d failures", n, failures)
			}
			time.Sleep(5 * time.Millisecond << (failures - 1))
		}
	})
}

// What is recorded, and by which name, is up to the controller, and controllers may record in one place.
func TestRecordsOfFewKeys(t *testing.T) {
	all := explain.NewRecords(nil)
	var now atomic.Value
	decide := func(*corev1.Pod) plan.Plan { return plan.Plan{Why: now.Load().(string)} }
	adjust := func(c *TypedController[incarnation, *corev1.Pod, struct{}, int]) {
		c.RecordStore = all
		c.RecordName = func(k incarnation, rec *explain.Record) (plan.Key, bool) {
			return plan.Key{Namespace: k.name.Namespace, Name: "Pod:" + k.name.Name}, rec.Why == "waits"
		}
	}
	runUncached(t, decide, adjust, func(u *uncached) {
		name := plan.Key{Namespace: "ns", Name: "Pod:a"}
		for _, why := range []string{"done", "waits", "done"} {
			now.Store(why)
			u.Enqueue(pod("1"), "", 0)
			time.Sleep(time.Second)
			if rec, ok := all.Get(name); ok != (why == "waits") || rec.Why != "" && rec.Why != why {
				t.Errorf("%s: recorded %+v", why, rec)
			}
		}
		if _, ok := all.Get(pod("1").name); ok || u.Records()[0] != all {
			t.Error("it has other records")
		}
	})
}

// A plan may ask for an object of the resource in which it was seen: another one may have the same kind.
func TestProofOfAResource(t *testing.T) {
	runUncached(t, nil, nil, func(u *uncached) {
		if _, err := u.server.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}); err != nil {
			t.Fatal(err)
		}
		ref := plan.Ref{Kind: podKind, Resource: "shadows", Namespace: "ns", Name: "a", Metadata: true}
		asked := &asksFor{Server: u.server}
		u.reader = asked
		for _, resource := range []string{"shadows", "pods"} {
			if found, err := u.readLive(t.Context(), ref); err != nil || len(found) != 1 || asked.Resource != resource ||
				!asked.Namespaced {
				t.Errorf("found %v of %+v: %v", found, asked.Mapping, err)
			}
			ref.Resource = ""
		}
	})
}

// asksFor remembers what was last read.
type asksFor struct {
	*clienttest.Server
	client.Mapping
}

func (a *asksFor) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	a.Mapping = m
	return a.Server.Get(ctx, m, key, into)
}
