package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// unversioned is a cache that does not tell its version.
type unversioned struct{ cache.SharedIndexInformer }

func (unversioned) HasSynced() bool           { return true }
func (unversioned) GetIndexer() cache.Indexer { return store{} }

type store struct{ cache.Indexer }

func (store) LastStoreSyncResourceVersion() string { return "" }

func TestRunRefusesACacheWithoutVersion(t *testing.T) {
	r := New(Shared{Tracker: freshness.NewTracker()}, Access{}, Controller[toy, struct{}, int]{
		Name: "toy", Watches: []Watch{{Kind: podKind, Informer: unversioned{}}},
	})
	if err := r.Run(t.Context()); err == nil {
		t.Error("a store without version passes for usable")
	}
}

// The queue of a term that has ended must not go on to show a depth.
func TestTheQueueIsEmptiedAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.decide = func(toy) plan.Plan { <-release; return plan.Plan{} }
		w.start()
		for i := range 10 {
			w.put(fmt.Sprintf("a-%d", i), 1)
		}
		w.settle()
		queue := w.runner.queue
		if queue.Len() != 7 {
			t.Errorf("%d keys wait, want 7", queue.Len())
		}
		go func() { time.Sleep(time.Second); close(release) }()
		w.stop()
		if queue.Len() != 0 {
			t.Errorf("%d keys are left", queue.Len())
		}
		if n := w.counted(string(Unchanged)); n > 3 {
			t.Errorf("%d keys were reconciled after the end", n)
		}
	})
}

func TestKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.adjust = func(c *Controller[toy, struct{}, int]) { c.Source = Keys(plan.Key{Name: "all"}) }
		w.start()
		if got := w.requests(); len(got) != 1 || got[0].Key.Name != "all" || got[0].Reader == nil || got[0].Now.IsZero() {
			t.Errorf("%+v", got)
		}
	})
}

// A Source enqueues keys while the controller runs, and ends with it, in each term anew.
func TestSource(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		running := 0
		w.adjust = func(c *Controller[toy, struct{}, int]) {
			c.Source = func(ctx context.Context, enqueue func(plan.Key)) {
				running++
				defer func() { running-- }()
				for {
					select {
					case <-ctx.Done():
						return
					case <-time.After(time.Hour):
						enqueue(plan.Key{Name: "again"})
					}
				}
			}
		}
		w.start()
		before := len(w.requests())
		time.Sleep(2*time.Hour + time.Minute)
		w.settle()
		got := w.requests()[before:]
		if len(got) != 2 || got[0].Key.Name != "again" || running != 1 {
			t.Errorf("%d running, %+v", running, got)
		}
		w.stop()
		if running != 0 {
			t.Error("the source goes on after the end")
		}
	})
}
