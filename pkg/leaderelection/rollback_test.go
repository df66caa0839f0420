package leaderelection

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A lease that is read in an earlier version than before is told of, by a leader and by a standby; one that was deleted and made anew
// is not.
func TestRollbacksOfTheLeaseAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name string
		back bool
	}{{"it goes back", true}, {"it is made anew", false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{version: 100}
				var told [2]atomic.Pointer[string]
				tell := func(i int) func(*process, *Config) {
					return func(p *process, _ *Config) {
						p.rolls = func(err error) {
							text := err.Error()
							told[i].Store(&text)
						}
					}
				}
				leader := start(t, s, "leader", tell(0))
				leader.untilLeading(t)
				standby := start(t, s, "standby", tell(1))
				time.Sleep(20 * time.Second)
				backup := s.get()
				time.Sleep(time.Minute)
				s.mu.Lock()
				if c.back {
					s.version = 50
					s.store(backup)
				} else {
					s.lease = nil
				}
				s.mu.Unlock()
				time.Sleep(time.Minute)
				for i := range told {
					text := told[i].Load()
					if (text != nil) != c.back ||
						text != nil && !strings.Contains(*text, "the lease kube-system/kube-controller-manager was at version 1") {
						t.Errorf("process %d was told %v", i, text)
					}
				}
				for _, p := range []*process{leader, standby} {
					if err := p.finish(t); err != nil && (c.back || !errors.Is(err, ErrLost)) {
						t.Error(err)
					}
				}
			})
		})
	}
}
