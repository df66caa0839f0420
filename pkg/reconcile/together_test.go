package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Two queues of one controller share the name in metrics. Each has its own name, status and records.
func TestTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := func(name string) *Runner[toy, struct{}, int] {
			return New(w.shared, Access{Client: w.Server}, Controller[toy, struct{}, int]{
				Name: name, QueueName: "shared", Workers: 1, Source: Keys(plan.Key{Name: name + "-key"}),
				Observe: func(context.Context, Request[int]) (o Observation[toy, int], err error) {
					o.Exists = true
					return o, nil
				},
				Plan: PlanOnly(func(_ time.Time, _ toy) plan.Plan { return plan.Plan{Why: "seen by " + name} }),
			})
		}
		both := Together(one("signing"), one("cleaning"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- both.Run(ctx) }()
		synctest.Wait()
		statuses := both.Statuses()
		if len(statuses) != 2 || statuses[0].Name != "signing" || statuses[1].Name != "cleaning" || !statuses[0].Running ||
			!statuses[1].Running {
			t.Errorf("statuses: %+v", statuses)
		}
		for i, name := range []string{"signing", "cleaning"} {
			rec, ok := both.Records()[i].Get(plan.Key{Name: name + "-key"})
			if !ok || rec.Why != "seen by "+name {
				t.Errorf("%s: %v %+v", name, ok, rec)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// part is one that ends with an error, or when it is told to.
type part struct{ err error }

func (p part) Statuses() []Status { return nil }

func (p part) Records() []*explain.Records { return nil }

func (p part) Run(ctx context.Context) error {
	if p.err != nil {
		return p.err
	}
	<-ctx.Done()
	return nil
}

// When one part fails, the others are stopped, and no error is lost.
func TestTogetherFails(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	if err := Together(part{}, part{a}, part{b}).Run(t.Context()); !errors.Is(err, a) || !errors.Is(err, b) {
		t.Errorf("got %v", err)
	}
}
