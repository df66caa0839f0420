package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The dependents of one owner do not keep those of another waiting, in the same namespace or in another one, nor owners that are verified.
func TestDependentsTakeTurns(t *testing.T) {
	dependent := func(namespace, owner string, i int) item {
		return item{node: &node{
			kind: podKind, namespace: namespace, name: fmt.Sprint(owner, "-", i), uid: types.UID(fmt.Sprint(namespace, owner, i)),
			owners: []metav1.OwnerReference{{UID: types.UID(owner)}},
		}}
	}
	stated := func(namespace, owner string, i int) item {
		return item{statedOwner: statedOwner{kind: "ConfigMap", namespace: namespace, name: fmt.Sprint(i), uid: types.UID(owner)}}
	}
	const many, few, cost = 10_000, 8, 10 * time.Millisecond
	for _, c := range []struct {
		name             string
		of               func(namespace, owner string, i int) item
		namespace, owner string
	}{
		{"in another namespace", dependent, "b", "web"},
		{"in the same namespace, of another owner", dependent, "a", "db"},
		{"owners that are looked for, in another namespace", stated, "b", "db"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var done int
				var began time.Time
				var slowest time.Duration
				seconds := map[item]bool{}
				p := newPool("test", func(_ context.Context, i item) (time.Duration, error) {
					time.Sleep(cost)
					mu.Lock()
					defer mu.Unlock()
					if done++; seconds[i] {
						slowest = time.Since(began)
						delete(seconds, i)
					}
					return 0, nil
				})
				for i := range many {
					p.add(c.of("a", "web", i))
				}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { p.Run(ctx, 1) })
				time.Sleep(time.Second)
				mu.Lock()
				began = time.Now()
				for i := range few {
					one := c.of(c.namespace, c.owner, many+i)
					seconds[one] = true
					p.add(one)
				}
				mu.Unlock()
				if wait := p.status().LongestWait; wait != time.Second {
					t.Errorf("the longest wait is %v", wait)
				}
				time.Sleep((many + few) * cost)
				cancel()
				all.Wait()
				// The one at work, each second turn, and once the item that has waited longest.
				if slowest > cost+2*few*cost+cost || len(seconds) > 0 {
					t.Errorf("done after %v, and %d are left", slowest, len(seconds))
				}
				if done != many+few {
					t.Errorf("%d of %d are done", done, many+few)
				}
			})
		})
	}
}
