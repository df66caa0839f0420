package leaderelection

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func watching(s *server, err error) func(*process, *Config) {
	return func(p *process, _ *Config) { p.sees = &watcher{server: s, err: err} }
}

func TestAStandbySeesTheReleaseAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		release func(s *server, leader *process)
	}{
		{"LE-16 given up", func(_ *server, leader *process) { leader.end() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{}
				a := start(t, s, "a", nil)
				a.untilLeading(t)
				b := start(t, s, "b", watching(s, nil))
				time.Sleep(7100 * time.Millisecond) // somewhere between two tries
				a.wire.cut(nil, nil)
				c.release(s, a)
				took := wait(t, time.Minute, "b leads", func() bool { running, _ := b.leading(); return running })
				if took > 50*time.Millisecond {
					t.Errorf("b leads after %v", took)
				}
				if got := holder(s); got != "b" {
					t.Errorf("held by %q", got)
				}
				_ = a.finish(t)
				if err := b.finish(t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lease that somebody deletes is made anew by its holder (LE-15): no standby takes it while that may still believe in it.
func TestADeletedLeaseStaysItsHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		b := start(t, s, "b", watching(s, nil))
		for range 20 {
			time.Sleep(7100 * time.Millisecond)
			s.set(nil)
			for range 50 {
				time.Sleep(100 * time.Millisecond)
				if a.Held() && b.Held() {
					t.Fatal("two hold the lease")
				}
			}
		}
		if holder(s) != "a" {
			t.Errorf("held by %q", holder(s))
		}
		a.wire.cut(down, nil) // dead
		s.set(nil)
		if took := b.untilLeading(t); took < 10*time.Second || took > 20*time.Second || a.Held() {
			t.Errorf("b leads after %v, a holds: %v", took, a.Held())
		}
		_ = a.finish(t)
		_ = b.finish(t)
	})
}

// A crash gives nothing up (LE-29): then the standby waits for the stored duration, as ever, but not for its next try.
func TestAStandbySeesTheExpiryLE8LE10(t *testing.T) {
	for _, stored := range []int32{15, 40} {
		t.Run(fmt.Sprintf("%ds", stored), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{}
				s.set(leaseOf("dead", stored))
				b := start(t, s, "b", watching(s, nil))
				took := b.untilLeading(t) - time.Duration(stored)*time.Second
				if took < 0 || took > 50*time.Millisecond {
					t.Errorf("leads %v after the expiry", took)
				}
				if l := s.get(); *l.Spec.LeaseTransitions != 4 || *l.Spec.LeaseDurationSeconds != 15 {
					t.Errorf("LE-10: %v", l.Spec)
				}
				if err := b.finish(t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A watch that shows nothing new for the stored duration is no proof: what counts is what the server has.
func TestAFrozenWatchTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		b := start(t, s, "b", func(p *process, _ *Config) { p.sees = &watcher{server: s, frozen: true} })
		time.Sleep(2 * time.Minute)
		if running, _ := b.leading(); running || b.Held() || !a.Held() || holder(s) != "a" {
			t.Errorf("held by %q", holder(s))
		}
		for _, r := range b.wire.log() {
			if r.Method != "GET" {
				t.Errorf("the standby sent %s", r.Method)
			}
		}
		_ = a.finish(t)
		_ = b.finish(t)
	})
}

func TestWithoutTheRightToWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		b := start(t, s, "b", watching(s, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "kube-controller-manager", nil)))
		time.Sleep(time.Minute)
		_ = a.finish(t)
		if took := b.untilLeading(t); took > 5*time.Second {
			t.Errorf("leads after %v", took)
		}
		s.mu.Lock()
		if s.watchesBegun != 1 {
			t.Errorf("asked to watch %d times", s.watchesBegun)
		}
		s.mu.Unlock()
		if err := b.finish(t); err != nil {
			t.Error(err)
		}
	})
}

// Watches end all the time. A release in between is seen by the next one.
func TestWatchesThatEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		b := start(t, s, "b", watching(s, nil))
		for range 10 {
			time.Sleep(10 * time.Second)
			s.mu.Lock()
			for _, w := range s.watches {
				w.Stop()
			}
			s.mu.Unlock()
		}
		_ = a.finish(t)
		if took := b.untilLeading(t); took > 3*time.Second {
			t.Errorf("leads after %v", took)
		}
		s.mu.Lock()
		if s.watchesBegun > 12 {
			t.Errorf("%d watches in 100s", s.watchesBegun)
		}
		s.mu.Unlock()
		if err := b.finish(t); err != nil {
			t.Error(err)
		}
	})
}
