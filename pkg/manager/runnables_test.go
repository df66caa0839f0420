package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// All end when the context ends or one fails, and are waited for, but not without end.
func TestRunAll(t *testing.T) {
	works := func(ctx context.Context, began func()) error {
		began()
		<-ctx.Done()
		return nil
	}
	lingers := func(d time.Duration) func(context.Context, func()) error {
		return func(ctx context.Context, began func()) error {
			defer time.Sleep(d)
			return works(ctx, began)
		}
	}
	waits := func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }
	fails := func(context.Context, func()) error { return errors.New("no file") }
	for _, c := range []struct {
		name    string
		all     []runnable
		timeout time.Duration
		begun   bool
		ended   time.Duration // the context ends after an hour
		want    string        // of the error; empty for none
	}{
		{"the context ends", []runnable{{Name: "a", Run: works}, {Name: "b", Run: works}}, time.Minute, true, time.Hour, ""},
		{"there are none", nil, time.Minute, true, time.Hour, ""},
		{"one fails", []runnable{{Name: "a", Run: waits}, {Name: "b", Run: fails}}, time.Minute, false, 0, "controller b: no file"},
		{"one fails before others start", []runnable{{Name: "a", Run: fails}, {Name: "b", StartInterval: time.Minute, Run: works}},
			time.Minute, false, 0, "controller a: no file"},
		{"one ends well", []runnable{{Name: "a", Run: func(context.Context, func()) error { return nil }}},
			time.Minute, true, time.Hour, ""},
		{"one does not begin", []runnable{{Name: "a", Run: waits}}, time.Minute, false, time.Hour, ""},
		{"one is late", []runnable{{Name: "a", Run: lingers(30 * time.Second)}}, time.Minute, true, time.Hour + 30*time.Second, ""},
		{"one is too late", []runnable{{Name: "a", Run: lingers(2 * time.Minute)}},
			time.Minute, true, time.Hour + time.Minute, ErrShutdownTimeout.Error()},
		{"there is no limit", []runnable{{Name: "a", Run: lingers(time.Hour)}}, -1, true, 2 * time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var begun atomic.Bool
				err := runAll(ctx, c.all, c.timeout, func(ctx context.Context) { begun.Store(ctx.Err() == nil) })
				if passed := time.Since(start); passed != c.ended {
					t.Errorf("ended after %v, want %v", passed, c.ended)
				}
				if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				time.Sleep(time.Hour) // for who is too late
				if begun.Load() != c.begun {
					t.Errorf("begun: %t", !c.begun)
				}
			})
		})
	}
}

// Each starts after an interval of its own, and when all have, the caller is told.
func TestStartInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		starts := make(chan time.Duration, 20)
		one := runnable{StartInterval: time.Minute, Run: func(context.Context, func()) error {
			starts <- time.Since(began)
			return nil
		}}
		all := []runnable{{Run: func(context.Context, func()) error { return nil }}}
		for range cap(starts) {
			all = append(all, one)
		}
		err := runAll(ctx, all, time.Minute, func(context.Context) { cancel() })
		if err != nil || len(starts) != cap(starts) {
			t.Fatalf("%d have started, %v", len(starts), err)
		}
		different := map[time.Duration]bool{}
		for range cap(starts) {
			after := <-starts
			if after < time.Minute || after >= 2*time.Minute {
				t.Errorf("started after %v", after)
			}
			different[after] = true
		}
		if len(different) < 2 {
			t.Error("all start at the same time")
		}
	})
}
