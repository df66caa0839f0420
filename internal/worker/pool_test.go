package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/queue"
)

// What workers do can be asked at any moment. When ctx has ended, keys that are left are taken out and not processed.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := 0
		p := NewPool(queue.New("test", func(int) string { return "" }), func(ctx context.Context, key int) {
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
		want := Activity[int]{Running: true, Key: 1, Stuck: 500 * time.Millisecond, Queued: 2, Idle: 500 * time.Millisecond, LongestWait: 1500 * time.Millisecond}
		if a := p.Activity(); a.Key != 1 && a.Key != 60 || a != (Activity[int]{true, a.Key, want.Stuck, want.Queued, want.Idle, want.LongestWait}) {
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
