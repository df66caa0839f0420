package chaos

import (
	"fmt"
	"slices"
	"strings"
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
	tally := newTally(t, "killed at a write, before or after it was carried out", 2*len(scenarios()),
		strings.Fields("S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S12 S15 S16 S18 S19 S20 S22 S23 L1 L2 L3")...)
	var unreached atomic.Int32
	t.Cleanup(func() {
		if n := unreached.Load(); n > 0 {
			t.Logf("%d changes were not made another time, as several may become one", n)
		}
	})
	for _, s := range scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.undisturbed(t, c, tally)
			points := []crashPoint{s.crashPoint()}
			if full {
				points = crashPoints(s.writes)
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

// crashPoint is a write to crash at: which of those with a verb, to a resource with all its subresources or to one of them.
type crashPoint struct {
	verb, path string
	earlier    int // of the same kind
	after      bool
}

func (p crashPoint) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("%s %d times %s %s", when, p.earlier, p.verb, p.path)
}

func (p crashPoint) script() string {
	return fmt.Sprintf("at 0s fault %s crash writes=%d after=%t back=0s verb=%s resource=%s", manager0, p.earlier, p.after, p.verb, p.path)
}

// certain reports whether each run makes such a write. Of changes there may be fewer, as several may become one.
func (p crashPoint) certain() bool { return p.earlier == 0 || p.verb == "create" || p.verb == "delete" }

// crashPoint is the one of the gate: at the creation or deletion in the middle, or where there is none at the first change, if
// possible one that is not of a status.
func (s scenario) crashPoint() crashPoint {
	var certain []crashPoint
	all := crashPoints(s.writes)
	for _, p := range all {
		if p.after && (p.verb == "create" || p.verb == "delete") {
			certain = append(certain, p)
		}
	}
	if len(certain) > 0 {
		return certain[len(certain)/2]
	}
	first := func(ok func(p crashPoint) bool) int {
		return slices.IndexFunc(all, func(p crashPoint) bool { return p.after && p.earlier == 0 && ok(p) })
	}
	if i := first(func(p crashPoint) bool { return !strings.Contains(p.path, "/") }); i >= 0 {
		return all[i]
	}
	return all[first(func(crashPoint) bool { return true })]
}

// crashPoints are all: before and after each write.
func crashPoints(writes []oracle.Request) (points []crashPoint) {
	for i, q := range writes {
		p := crashPoint{verb: q.Verb, path: q.Resource}
		if q.Subresource != "" {
			p.path += "/" + q.Subresource
		}
		for _, other := range writes[:i] {
			if other.Verb == q.Verb && other.Resource == q.Resource && (q.Subresource == "" || other.Subresource == q.Subresource) {
				p.earlier++
			}
		}
		for _, p.after = range []bool{false, true} {
			points = append(points, p)
		}
	}
	return points
}
