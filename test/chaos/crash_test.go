package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// crashes is at how many points of a scenario the manager is killed in the small set.
const crashes = 4

// TestCrashAtEveryWrite kills the manager at each of its writes: right before the answer, so that the next process finds
// a write that the former did not know of, and right after it. The next process must finish the work, breaking no rule,
// and reach the same end.
func TestCrashAtEveryWrite(t *testing.T) {
	c := cluster.Start(t)
	tally := newTally(t, "killed at a write, before or after the answer", 4*len(scenarios()),
		strings.Fields("S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S12 S15 S18 S19 S20 S22 S23 L1 L2 L3")...)
	t.Cleanup(func() {
		if tally.injections*2 < tally.runs { // a few points may not be reached, and each scenario is run once without
			t.Errorf("in %d runs the manager was killed %d times", tally.runs, tally.injections)
		}
	})
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			reference, writes := s.undisturbed(t, c, tally)
			for _, at := range crashPoints(writes) {
				t.Run(at.String(), func(t *testing.T) {
					t.Parallel()
					r := newRun(t, c, tally, at.script(), podgcThreshold)
					t.Cleanup(func() { r.replayBy("CHAOS_FULL=1 ") }) // the selection depends on the number of writes
					r.reference = reference
					h := s.run(r)
					if r.kills.Load() == 0 {
						t.Logf("it made only %d writes this time", r.proxy.Writes())
					}
					r.judge(h, oracle.Options{})
				})
			}
		})
	}
}

// podgcThreshold lets podgc leave few pods.
var podgcThreshold = fmt.Sprintf("--terminated-pod-gc-threshold=%d", suite.TerminatedThreshold)

// scenario is a piece of work for a manager that ends in the same state each time.
type scenario struct {
	name    string
	prepare func(*run) // before the manager starts; may be nil
	play    func(*run)
}

// scenarios are those of all entries of the suite.
func scenarios() (all []scenario) {
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			each := scenario{name: s.Name, play: func(r *run) { s.Play(r.user()) }}
			if s.Prepare != nil {
				each.prepare = func(r *run) { s.Prepare(r.user()) }
			}
			all = append(all, each)
		}
	}
	return all
}

// user does what users do, while managers that are killed are started anew.
func (r *run) user() *suite.User {
	return &suite.User{TB: r.T, Client: r.Client, Namespace: r.ns, Wait: r.wait}
}

const undisturbedName = "undisturbed"

// undisturbed plays the scenario without faults.
func (s scenario) undisturbed(t *testing.T, c *cluster.Cluster, y *tally) (h *oracle.History, writes int) {
	t.Helper()
	ok := t.Run(undisturbedName, func(t *testing.T) {
		r := newRun(t, c, y, "", podgcThreshold)
		h = s.run(r)
		writes = r.proxy.Writes()
		r.judge(h, oracle.Options{})
	})
	if !ok && h == nil {
		t.FailNow()
	}
	return h, writes
}

// run plays the scenario until the manager rests.
func (s scenario) run(r *run) *oracle.History {
	r.Helper()
	if s.prepare != nil {
		s.prepare(r)
	}
	r.start()
	s.play(r)
	return r.end()
}

// crashPoint is a write to crash at, counted from 1.
type crashPoint struct {
	write int
	when  string // before or after its answer
}

func (p crashPoint) String() string { return fmt.Sprintf("%s the answer to write %d", p.when, p.write) }

func (p crashPoint) script() string { return fmt.Sprintf("write * nth=%d : kill %s", p.write, p.when) }

// crashPoints are all, or a selection: one half before and one half after an answer, spread over the scenario. It leaves out
// the last of the writes, because a manager that is quicker or slower another time makes fewer.
func crashPoints(writes int) (points []crashPoint) {
	if !full {
		writes -= writes / 4
	}
	for _, when := range []string{"before", "after"} {
		for write := 1; write <= writes; write++ {
			points = append(points, crashPoint{write, when})
		}
	}
	if full || len(points) <= crashes {
		return points
	}
	var some []crashPoint
	for i := range crashes {
		some = append(some, points[i*(len(points)-1)/(crashes-1)])
	}
	return some
}
