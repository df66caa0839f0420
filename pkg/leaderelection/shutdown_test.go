package leaderelection

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReleaseOnlyAfterWorkEndedLE16LE17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		a := start(t, s, "a", func(p *process, c *Config) {
			p.stopFor, c.ShutdownTimeout = 40*time.Second, time.Minute
		})
		a.untilLeading(t)
		b := start(t, s, "b", nil)
		time.Sleep(5 * time.Second)
		before := s.get()
		a.end()
		for range 39 {
			time.Sleep(time.Second)
			if running, _ := b.leading(); running || b.Held() {
				t.Fatal("two leaders at once")
			}
			if !a.Held() {
				t.Fatal("the lease is to be renewed until the work has ended, longer than the lease lasts")
			}
		}
		if err := a.returned(t, 2*time.Second); err != nil {
			t.Error(err)
		}
		released := s.get()
		if a.Held() || *released.Spec.HolderIdentity != "" || *released.Spec.LeaseDurationSeconds != 1 ||
			*released.Spec.LeaseTransitions != *before.Spec.LeaseTransitions ||
			!released.Spec.AcquireTime.Time.Equal(released.Spec.RenewTime.Time) ||
			!released.Spec.AcquireTime.After(before.Spec.AcquireTime.Time) {
			t.Errorf("LE-16: released lease %v", released.Spec)
		}
		log := a.wire.log()
		if last := log[len(log)-2:]; last[0].Method != "GET" || last[1].Method != "PUT" {
			t.Errorf("LE-16: released by %v", last)
		}
		if took := b.untilLeading(t); took > 4500*time.Millisecond {
			t.Errorf("LE-30: taken over %v after the release", took)
		}
		if n := a.logged("Released the leader lease"); n != 1 || a.logged("Failed to renew lease") != 0 {
			t.Errorf("log: %q", a.lines)
		}
		_ = b.finish(t)
	})
}

// Work that goes on although lead has returned keeps the lease from others, and the process from another term.
func TestWorkThatGoesOnAfterLead(t *testing.T) {
	stuck := func(p *process, c *Config) {
		c.OnLoss, p.says = Standby, fmt.Errorf("%w: a controller hangs", ErrStuck)
	}
	t.Run("after a loss", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", stuck)
			p.untilLeading(t)
			s.set(leaseOf("b", 15))
			if err := p.returned(t, 15*time.Second); !errors.Is(err, ErrLost) || !errors.Is(err, ErrStuck) {
				t.Errorf("returned %v", err)
			}
			if _, leads := p.leading(); leads != 1 {
				t.Errorf("it has led %d times", leads)
			}
			p.end()
		})
	})
	t.Run("at the end", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", stuck)
			p.untilLeading(t)
			p.end()
			if err := p.returned(t, 15*time.Second); !errors.Is(err, ErrStuck) {
				t.Errorf("returned %v", err)
			}
			if holder(s) != "a" {
				t.Error("the lease is released")
			}
		})
	})
}

func TestShutdownTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", func(p *process, c *Config) { c.ShutdownTimeout, p.stopFor = 20*time.Second, 30*time.Second })
		p.untilLeading(t)
		time.Sleep(3 * time.Second)
		p.end()
		begin := time.Now()
		if err := p.returned(t, time.Minute); !errors.Is(err, ErrStuck) || errors.Is(err, ErrLost) {
			t.Errorf("returned %v", err)
		}
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("after %v", took)
		}
		version := s.get().ResourceVersion
		time.Sleep(20 * time.Second)
		if p.Held() || holder(s) != "a" || s.get().ResourceVersion != version {
			t.Error("the lease is to expire by itself, and no write to be made")
		}
	})
}

func TestWorkEndsByItself(t *testing.T) {
	for _, want := range []error{nil, errors.New("no informers")} {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", func(p *process, c *Config) { c.OnLoss = Standby })
			p.untilLeading(t)
			p.result <- want
			if err := p.returned(t, time.Second); err != want {
				t.Errorf("returned %v, want %v", err, want)
			}
			if holder(s) != "" || p.Held() {
				t.Error("not released")
			}
			p.end()
		})
	}
}

func TestLossDuringShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", func(p *process, c *Config) { c.ShutdownTimeout, p.stopFor = time.Minute, 30*time.Second })
		p.untilLeading(t)
		p.end()
		time.Sleep(time.Second)
		s.set(leaseOf("b", 15))
		time.Sleep(3 * time.Second)
		if p.Held() {
			t.Error("held during the shutdown although another has the lease")
		}
		if err := p.returned(t, time.Minute); err != nil {
			t.Errorf("a graceful end is no error: %v", err)
		}
		if holder(s) != "b" {
			t.Error("released another's lease")
		}
	})
}

// The API server does not answer for longer than the lease lasts, another process takes the lease, and this one is told to end: the
// lease stays with the other one.
func TestMEND35AnotherHolderIsNotReleased(t *testing.T) {
	for _, onLoss := range []OnLoss{Exit, Standby} {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", func(_ *process, c *Config) { c.OnLoss = onLoss })
			p.untilLeading(t)
			p.wire.cut(down, nil)
			time.Sleep(20 * time.Second)
			s.set(leaseOf("b", 15))
			p.wire.cut(nil, nil)
			p.end()
			_ = p.returned(t, time.Minute)
			if holder(s) != "b" || p.Held() {
				t.Errorf("%v: the lease is that of %q", onLoss, holder(s))
			}
		})
	}
}

func TestEndBeforeLeading(t *testing.T) {
	t.Run("a standby writes nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &server{}
			s.set(leaseOf("b", 1000))
			p := start(t, s, "a", nil)
			time.Sleep(10 * time.Second)
			n := len(p.wire.log())
			if err := p.finish(t); err != nil || len(p.wire.log()) != n {
				t.Errorf("returned %v, %d requests more", err, len(p.wire.log())-n)
			}
		})
	})
	t.Run("a lease acquired without knowing is released", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", func(p *process, _ *Config) {
				p.wire.cut(nil, func(r *http.Request) error {
					if r.Method == "POST" {
						return hang(r) // carried out, but the answer is lost
					}
					return nil
				})
			})
			time.Sleep(time.Second)
			if holder(s) != "a" || p.Held() {
				t.Fatal("the test's premise")
			}
			if err := p.finish(t); err != nil || holder(s) != "" {
				t.Errorf("returned %v, holder %q", err, holder(s))
			}
			if _, leads := p.leading(); leads != 0 {
				t.Error("led")
			}
		})
	})
}

func TestReleaseFailsSoftly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", nil)
		p.untilLeading(t)
		time.Sleep(time.Second)
		p.wire.cut(hang, nil)
		begin := time.Now()
		if err := p.finish(t); err != nil || time.Since(begin) > 6*time.Second {
			t.Errorf("returned %v after %v", err, time.Since(begin))
		}
		if p.logged("Could not release the leader lease") != 1 {
			t.Errorf("log: %s %v", strings.Join(p.lines, "\n"), p.wire.log())
		}
	})
}
