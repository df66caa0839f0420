package queue

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What workers do can be asked at any moment. When ctx has ended, keys that are left are taken out and not processed.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := 0
		p := NewPool(New("test", func(int) string { return "" }), func(ctx context.Context, key int) {
			time.Sleep(time.Second)
			Progress(ctx)
			time.Sleep(time.Duration(key) * time.Second)
			mu.Lock()
			defer mu.Unlock()
			done++
		})
		if p.Activity().Running {
			t.Error("it runs before it is run")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { p.Run(ctx, 2) })
		p.Add(60)
		p.Add(1)
		synctest.Wait()
		p.Add(2)
		p.Add(3)
		time.Sleep(1500 * time.Millisecond)
		want := Activity[int]{Running: true, Key: 1, Stuck: 500 * time.Millisecond, Queued: 2, Idle: 500 * time.Millisecond,
			LongestWait: 1500 * time.Millisecond}
		if a := p.Activity(); a.Key != 1 && a.Key != 60 ||
			a != (Activity[int]{true, a.Key, want.Stuck, want.Queued, want.Idle, want.LongestWait}) {
			t.Errorf("%+v, want %+v", a, want)
		}
		time.Sleep(10 * time.Second)
		if a := p.Activity(); a.Key != 60 || a.Stuck != 10500*time.Millisecond || a.Queued != 0 || a.Idle != 0 || a.LongestWait != 0 {
			t.Errorf("%+v", a)
		}
		time.Sleep(time.Minute)
		if a := p.Activity(); a != (Activity[int]{Running: true}) || done != 4 {
			t.Errorf("%+v, %d done", a, done)
		}
		cancel()
		p.Add(7)
		all.Wait()
		if a := p.Activity(); a.Running || done != 4 || p.Len() != 0 {
			t.Errorf("%+v, %d done, %d left", a, done, p.Len())
		}
	})
}

// A tenant whose keys all hang, in a webhook say, has all workers while it is alone, and keeps half of them from nobody: the keys of
// another one are processed at once, whenever they come. When the hanging ones end, there are as many workers as there were.
func TestANamespaceThatHangsLeavesHalfOfTheWorkers(t *testing.T) {
	const hangs, quick = 30 * time.Second, time.Second
	for _, c := range []struct{ workers, alone, others int }{{2, 2, 1}, {3, 3, 1}, {5, 5, 2}, {10, 10, 5}} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, most, done := map[string]int{}, map[string]int{}, map[string]int{}
			note := func(namespace string, n int) {
				mu.Lock()
				defer mu.Unlock()
				now[namespace] += n
				most[namespace] = max(most[namespace], now[namespace])
				most["all"] = max(most["all"], now["hangs"]+now["works"])
			}
			of := func(counts map[string]int, namespace string) int {
				mu.Lock()
				defer mu.Unlock()
				return counts[namespace]
			}
			p := NewPool(New("test", namespaceOf), func(_ context.Context, key plan.Key) {
				note(key.Namespace, 1)
				defer note(key.Namespace, -1)
				time.Sleep(map[string]time.Duration{"hangs": hangs, "works": quick}[key.Namespace])
				mu.Lock()
				defer mu.Unlock()
				done[key.Namespace]++
			})
			add := func(namespace string, n int) {
				for i := range n {
					p.Add(plan.Key{Namespace: namespace, Name: strconv.Itoa(i)})
				}
				synctest.Wait()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { p.Run(ctx, c.workers) })
			synctest.Wait()
			add("hangs", 100)
			if of(now, "hangs") != c.alone {
				t.Errorf("%d workers: %d keys are processed while nobody else waits", c.workers, of(now, "hangs"))
			}
			time.Sleep(hangs / 2)
			add("works", 10*c.others)
			time.Sleep(10*quick + time.Millisecond)
			if synctest.Wait(); of(done, "works") != 10*c.others || of(most, "works") != c.others {
				t.Errorf("%d workers: after 10s, %d keys of the other one are done, %d at a time", c.workers, of(done, "works"),
					of(most, "works"))
			}
			time.Sleep(10 * hangs)
			if synctest.Wait(); of(now, "hangs") != min(c.alone, 100-of(done, "hangs")) || of(most, "all") > c.workers+c.workers/2 {
				t.Errorf("%d workers: %d are busy, there were %d", c.workers, of(now, "hangs"), of(most, "all"))
			}
			cancel()
			all.Wait()
			if p.Len() != 0 {
				t.Errorf("%d keys are left", p.Len())
			}
		})
	}
}
