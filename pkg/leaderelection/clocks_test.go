package leaderelection

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestClockJumps(t *testing.T) {
	t.Run("LE-14: stopped and continued", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := &server{}
			p := start(t, s, "a", nil)
			p.untilLeading(t)
			time.Sleep(5 * time.Second)
			p.jumps.jump(13*time.Second, 13*time.Second)
			if p.Held() {
				t.Error("held after 13s")
			}
			s.set(leaseOf("b", 15))
			if err := p.returned(t, 3*time.Second); !errors.Is(err, ErrLost) {
				t.Errorf("returned %v", err)
			}
			p.end()
		})
	})
	for name, wall := range map[string]time.Duration{"set forward a little": 14 * time.Second, "set back": -time.Hour} {
		t.Run("the wall clock is "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{}
				p := start(t, s, "a", nil)
				p.untilLeading(t)
				time.Sleep(5 * time.Second)
				p.jumps.jump(0, wall)
				if held := p.Held(); held != (wall < 0) {
					t.Errorf("held: %v", held)
				}
				time.Sleep(3 * time.Second)
				if running, leads := p.leading(); !p.Held() || !running || leads != 1 {
					t.Error("the renewal should have told that the lease is ours all along")
				}
				p.wire.cut(down, nil)
				if err := p.returned(t, 15*time.Second); !errors.Is(err, ErrLost) {
					t.Errorf("returned %v", err)
				}
				p.end()
			})
		})
	}
}

// A machine that was suspended for longer than a lease begins a new term, though nobody has taken the lease meanwhile: its monotonic
// clock stood still, and so did its caches.
func TestResumedMachine(t *testing.T) {
	for name, slept := range map[string]time.Duration{"for 16s": 16 * time.Second, "for an hour": time.Hour} {
		for _, onLoss := range []OnLoss{Exit, Standby} {
			t.Run(name+", "+string(onLoss), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := &server{}
					p := start(t, s, "a", func(_ *process, c *Config) { c.OnLoss = onLoss })
					p.untilLeading(t)
					time.Sleep(5 * time.Second)
					p.jumps.jump(0, slept)
					if p.Held() {
						t.Error("held")
					}
					if onLoss == Exit {
						if err := p.returned(t, 3*time.Second); !errors.Is(err, ErrLost) {
							t.Errorf("returned %v", err)
						}
						if p.Held() || p.logged("the machine was suspended, or its clock was set forward, by "+slept.String()) == 0 {
							t.Errorf("log: %s", strings.Join(p.lines, "\n"))
						}
					} else {
						time.Sleep(20 * time.Second)
						if running, leads := p.leading(); !p.Held() || !running || leads != 2 {
							t.Errorf("held %v, running %v, %d terms", p.Held(), running, leads)
						}
						_ = p.finish(t)
					}
					p.end()
				})
			})
		}
	}
}
