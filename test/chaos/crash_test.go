package chaos

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// TestCrashAtEveryWrite kills the manager when a write was carried out and it does not know, and with CHAOS_FULL at each of its
// writes, then and before. The next process must finish the work, breaking no rule, and reach the same end. (All writes of all
// scenarios are crashed at in virtual time. Here is shown that a real process comes back.)
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	tally := newTally(t, "killed at a write, before or after it was carried out", len(scenarios()))
	var certain, missed, unreached atomic.Int32
	t.Cleanup(func() {
		tally.looksEverywhere(t)
		if n := unreached.Load(); n > 0 {
			t.Logf("%d changes were not made another time, as several may become one", n)
		}
		// With all writes there are some after the end of the work, such as those of a clean-up that has begun, which not each run
		// waits for.
		if of, n := certain.Load(), missed.Load(); 20*n > of {
			t.Errorf("at %d of %d writes that each run should make it was not killed", n, of)
		}
	})
	for _, s := range scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.undisturbed(t, c, tally)
			points := []crashPoint{{s.middle(), true}}
			if full {
				points = s.crashPoints()
			}
			for _, at := range points {
				t.Run(at.String(), func(t *testing.T) {
					t.Parallel()
					r := newRun(t, c, tally)
					t.Cleanup(func() { r.replayBy(environment()) })
					r.reference = s.history
					r.play(at.script())
					h := s.run(r)
					switch n := r.killed(); {
					case at.certain() && full:
						certain.Add(1)
						missed.Add(int32(max(0, 1-n)))
					case n == 0 && at.certain():
						t.Errorf("it was not killed; it made %d writes", r.proxy.Writes())
					case n == 0:
						unreached.Add(1)
					}
					r.judge(h, oracle.Options{})
				})
			}
		})
	}
}

// crashPoint is a write to crash at, before or after it is carried out.
type crashPoint struct {
	writePoint
	after bool
}

func (p crashPoint) String() string {
	if p.after {
		return "after " + p.writePoint.String()
	}
	return "before " + p.writePoint.String()
}

func (p crashPoint) script() string {
	return fmt.Sprintf("at 0s fault %s crash writes=%d after=%t back=0s verb=%s resource=%s", manager0, p.earlier, p.after, p.verb,
		p.path())
}

// crashPoints are all: before and after each write.
func (s scenario) crashPoints() (points []crashPoint) {
	for _, p := range s.points {
		points = append(points, crashPoint{p, false}, crashPoint{p, true})
	}
	return points
}
