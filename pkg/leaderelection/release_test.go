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

// A lease that somebody deletes is made anew by its holder (LE-15), with the annotations that it had: no standby takes it while
// that may still believe in it.
func TestADeletedLeaseStaysItsHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", nil)
		a.untilLeading(t)
		annotated := s.get()
		annotated.Annotations = map[string]string{"others": "said"}
		s.set(annotated)
		b := start(t, s, "b", watching(s, nil))
		for i := range 20 {
			time.Sleep(7100 * time.Millisecond)
			if b.wire.cut(nil, nil); i%4 == 0 { // b sees the lease no more for longer than it is valid
				b.wire.cut(down, nil)
				time.Sleep(20 * time.Second)
			}
			s.set(nil)
			b.wire.cut(nil, nil)
			for range 50 {
				time.Sleep(100 * time.Millisecond)
				if a.Held() && b.Held() {
					t.Fatal("two hold the lease")
				}
			}
		}
		if holder(s) != "a" || s.get().Annotations["others"] != "said" {
			t.Errorf("held by %q, with %v", holder(s), s.get().Annotations)
		}
		_ = a.finish(t)
		_ = b.finish(t)
	})
}

// The holder may have renewed a deleted lease since others have read it last, and dies.
func TestADeletedLeaseExpires(t *testing.T) {
	for i := range 40 {
		bubble(t, func(t *testing.T) {
			s := &server{}
			a := start(t, s, "a", nil)
			a.untilLeading(t)
			change := watching(s, nil)
			if i%2 == 0 {
				change = nil // the lease is only tried periodically
			}
			b := start(t, s, "b", change)
			time.Sleep(10*time.Second + time.Duration(i)*97*time.Millisecond)
			a.wire.cut(down, nil)
			s.set(nil)
			most := time.After(25 * time.Second) // two tries and the duration
			for !b.Held() {
				select {
				case <-most:
					t.Fatal("the lease is not taken")
				case <-time.After(50 * time.Millisecond):
				}
			}
			if a.Held() {
				t.Error("two hold the lease")
			}
			_ = a.finish(t)
			_ = b.finish(t)
		})
	}
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
