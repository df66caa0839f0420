package queue

import (
	"context"
	"strconv"
	"strings"
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

// Keys without namespace that hang, such as those of the namespaces of a tenant whose webhook does not answer, keep others waiting until
// each was tried once for a few seconds, and then not at all. Those that only take long end all the same, while others go on.
func TestKeysThatHangKeepNobodyWaiting(t *testing.T) {
	const workers, hang = 4, 12
	synctest.Test(t, func(t *testing.T) {
		p := &slowPool{hangs: 30 * time.Second, slots: NewSlots(workers), added: map[string]time.Time{}, done: map[string]int{}}
		p.Pool = NewPool(New("test", func(string) string { return "" }), p.process)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { p.Run(ctx, workers) })
		p.add("hangs", hang)
		first := hangsAfter * hang / (workers / 2) // those that were tried may have the other half
		if took := p.others("first", int(first/usual)+10); took > first+usual {
			t.Errorf("others have waited for up to %v while those that hang were tried first", took)
		}
		if took := p.others("next", 3000); took > usual {
			t.Errorf("others have waited for up to %v later on", took)
		}
		p.mu.Lock()
		for i := range hang {
			if key := "hangs" + strconv.Itoa(i); p.done[key] == 0 {
				t.Errorf("%s has never ended", key)
			}
		}
		p.hangs = usual
		p.mu.Unlock()
		p.add("hangs", hang)
		p.others("last", 10)
		cancel()
		all.Wait()
		if s := p.storage; len(s.hung) > 0 || len(s.tries) > 0 || s.shares.used > 0 || p.slots.Used() > 0 {
			t.Errorf("when all is done: %d keys hang, %d are tried, %d workers and %d slots are used", len(s.hung), len(s.tries),
				s.shares.used, p.slots.Used())
		}
	})
}

// usual is how often keys of a slowPool come that do not hang. They take a tenth of that.
const usual = 100 * time.Millisecond

// slowPool is a pool of keys that take some time, unless their context ends before. They write to namespaces of their own.
type slowPool struct {
	*Pool[string]
	slots *Slots

	mu      sync.Mutex
	hangs   time.Duration // how long keys take whose names begin with that
	added   map[string]time.Time
	done    map[string]int
	longest time.Duration // of those that do not hang
}

func (p *slowPool) process(ctx context.Context, key string) {
	err := p.request(ctx, key)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil: // given up, or the end
		p.AddAfter(key, usual)
		return
	case !strings.HasPrefix(key, "hangs"):
		p.longest = max(p.longest, time.Since(p.added[key]))
	}
	p.done[key]++
}

func (p *slowPool) request(ctx context.Context, key string) error {
	namespace := TurnsOf(ctx, key)
	if err := p.slots.Take(ctx, namespace, ""); err != nil {
		return err
	}
	defer p.slots.Release(namespace)
	p.mu.Lock()
	takes := usual / 10
	if strings.HasPrefix(key, "hangs") {
		takes = p.hangs
	}
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(takes):
		return nil
	}
}

// add adds n keys.
func (p *slowPool) add(name string, n int) {
	for i := range n {
		p.mu.Lock()
		key := name + strconv.Itoa(i)
		p.added[key] = time.Now()
		p.mu.Unlock()
		p.Add(key)
	}
}

// others adds n keys, one after the other, and returns how long the slowest of those has taken that are done.
func (p *slowPool) others(name string, n int) time.Duration {
	for i := range n {
		p.add(name+strconv.Itoa(i)+"-", 1)
		time.Sleep(usual)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.longest
	p.longest = 0
	return took
}
