package reconcile

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/keystate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// quietTime is after how long without a change the toy's reports are written.
const quietTime = 100 * time.Millisecond

// A report is written once for all that changes in quick succession, when the object is quiet.
func TestReportIsReplacedByANewerOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.debounce = time.Second
		w.start()
		for n := range int32(5) {
			w.put("a", n+1)
			time.Sleep(quietTime / 2)
		}
		if n := w.CountWrites("update ReplicaSet"); n != 4 { // those of put
			t.Fatalf("a report was not debounced: %v", w.Log())
		}
		if s := w.status(); s.Debounced != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * quietTime)
		if n := w.CountWrites("update ReplicaSet"); n != 5 {
			t.Errorf("want one report: %v", w.Log())
		}
		got, _, _ := w.runner.Watches[0].Informer.GetStore().GetByKey("ns/a")
		if replicas := got.(*appsv1.ReplicaSet).Status.Replicas; replicas != 5 {
			t.Errorf("reported %d", replicas)
		}
		if s := w.status(); s.Debounced != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// With a long backlog no report is written while the controller writes other things, but each after a while. When the
// controller is quiet, or the backlog is short, they are.
func TestReportsWaitForTheBacklog(t *testing.T) {
	for _, c := range []struct {
		name    string
		reports int
		queued  int
		busy    time.Duration // for how long other things are written
		want    time.Duration
	}{
		{"a few reports", keystate.LongBacklog, 0, time.Hour, quietTime},
		{"many reports", keystate.LongBacklog + 1, 0, time.Hour, keystate.LongestDebounce},
		{"few reports, many keys", 1, keystate.LongBacklog, time.Hour, keystate.LongestDebounce},
		{"many reports, soon quiet", keystate.LongBacklog + 1, 0, 3 * time.Second, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := New(w.shared, Access{Client: w.Server}, Controller[toy, struct{}, int]{Name: "toy"})
				r.begin()
				defer r.queue.ShutDown()
				for i := range c.queued {
					r.queue.Add(plan.Key{Name: fmt.Sprint("queued-", i)})
				}
				rep := plan.Plan{Steps: []plan.Step{plan.Change{}}, When: plan.When{Quiet: quietTime, Longest: time.Second}}
				for i := range c.reports - 1 {
					s, _ := r.keys.Admit(plan.Key{Name: fmt.Sprint("other-", i)}, r.caches, time.Now())
					r.debounce(s, rep, time.Now(), 0)
				}
				s, _ := r.keys.Admit(plan.Key{Name: "a"}, r.caches, time.Now())
				for began := time.Now(); ; {
					now := time.Since(began)
					if now < c.busy {
						w.write(r, false)
					}
					w.write(r, true) // another debounced report
					wait := r.debounce(s, rep, time.Now(), 0)
					if wait <= 0 {
						if now < c.want || now > c.want+keystate.QuietController {
							t.Errorf("written after %v, want %v", now, c.want)
						}
						return
					}
					time.Sleep(wait)
				}
			})
		})
	}
}

// write lets the runner's executor write something.
func (w *world) write(r *Runner[toy, struct{}, int], debounced bool) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "p-"}}
	writing := r.executor.Begin(w.t.Context(), nil, &freshness.Barrier{})
	writing.Debounced = debounced
	if did := writing.Apply([]plan.Step{plan.Create{Object: pod}}); did.Err != nil {
		w.t.Error(did.Err)
	}
}

// A reconcile that takes long does not report what it found at its beginning: the next one knows more.
func TestLongReconcileDoesNotReportWhatIsOutdated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var slow atomic.Int64
		w.lag = func(context.Context) error { time.Sleep(time.Duration(slow.Load())); return nil }
		w.debounce = time.Second
		w.start()
		w.put("a", 1)
		time.Sleep(quietTime / 2)
		slow.Store(int64(5 * quietTime))
		w.put("a", 2)
		time.Sleep(time.Second)
		if n := w.CountWrites("update ReplicaSet"); n != 2 { // one of put
			t.Errorf("want one report: %v", w.Log())
		}
	})
}
