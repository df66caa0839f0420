package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// incarnation is a key of objects that may have one name, one after the other.
type incarnation struct {
	name plan.Key
	uid  types.UID
}

// Keys may be of any type: each has a memory, failures and a turn of its own, and people see their names.
func TestKeysOfAnyType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := plan.Key{Namespace: "shop", Name: "web"}
		older, newer, stuck := incarnation{web, "1"}, incarnation{web, "2"}, incarnation{plan.Key{Namespace: "b", Name: "stuck"}, "3"}
		var mu sync.Mutex
		var seen []types.UID
		memories := map[types.UID]int{}
		shared, access := Shared{Tracker: freshness.NewTracker()}, Access{Client: clienttest.NewServer()}
		r := NewTyped(shared, access, TypedController[incarnation, types.UID, struct{}, int]{
			Name: "incarnations", Workers: 2, SkipVerification: true,
			KeyName: func(k incarnation) plan.Key { return k.name },
			Source:  Keys(older, newer, stuck),
			Observe: func(ctx context.Context, r TypedRequest[incarnation, int]) (o Observation[types.UID, int], err error) {
				mu.Lock()
				seen = append(seen, r.Key.uid)
				m := 1
				if r.Memory != nil {
					m += *r.Memory
				}
				memories[r.Key.uid] = m
				mu.Unlock()
				switch {
				case r.Key == stuck:
					<-ctx.Done()
					return o, ctx.Err()
				case r.Key == newer && r.Failure == nil:
					return o, errors.New("refused")
				}
				return Observation[types.UID, int]{Exists: true, Snapshot: r.Key.uid, Memory: &m}, nil
			},
			Plan: PlanOnly(func(_ time.Time, uid types.UID) plan.Plan {
				if uid == older.uid {
					return plan.Plan{Why: "older", Requeue: time.Hour}
				}
				return plan.Plan{Why: "newer"}
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		if s := r.Statuses()[0]; s.Key != stuck.name || s.Stuck < 50*time.Second || s.Queued != 0 || s.Failing != 0 {
			t.Errorf("status %+v", s)
		}
		if rec, _ := r.Records()[0].Get(web); rec.Why != "newer" {
			t.Errorf("the last record of the name: %+v", rec)
		}
		time.Sleep(time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		slices.Sort(seen)
		if want := []types.UID{"1", "1", "2", "2", "3"}; !slices.Equal(seen, want) {
			t.Errorf("observed %v, want %v", seen, want)
		}
		if memories["1"] != 2 || memories["2"] != 1 {
			t.Errorf("memories %v", memories)
		}
	})
}
