package simulation

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Scenario is a world that is small enough to be explored: what users do, in order, and how often the manager may die.
type Scenario struct {
	Name    string
	Lines   []script.Line // their times don't matter
	Crashes int
}

// Exploration is what came of exploring a scenario.
type Exploration struct {
	States   int  // different ones that were reached
	Paths    int  // that were walked
	Depth    int  // steps of the longest path
	Lost     int  // paths that could not be walked again, because the order of goroutines came out differently
	Complete bool // there is no other path, but for those that lead through states that were reached on another
	Failed   []string
	Broken   []string // the rules that the failed path breaks
}

// Explore walks all paths through a scenario: at each point it tries everything that may happen next, which is the arrival
// of the next event at one of the manager's caches, the next thing that users do, a pod that becomes ready or is gone, and
// the death of the manager. Time moves on only when nothing else is left to happen. A path ends where it reaches a state
// that is known from another one, and at the latest when nothing happens any more; then everything must be in order.
//
// Two states are the same if all objects are, and everything that the caches show. What else the manager remembers is
// taken to follow from that.
//
// It ends after so many paths if there are more.
func Explore(t *testing.T, s Scenario, registry func() []manager.Controller, paths int) Exploration {
	m := &atlas{known: map[uint64]bool{}, open: [][]string{nil}, left: paths}
	var explorers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		explorers.Go(func() {
			for {
				prefix, ok := m.next()
				if !ok {
					return
				}
				var w walk
				inBubble(t, 1, func(t *testing.T) { w = walkFrom(t.Context(), s, registry, prefix, m) })
				m.add(w)
			}
		})
	}
	explorers.Wait()
	m.States, m.Complete = len(m.known), len(m.open) == 0
	return m.Exploration
}

// atlas is what is known of a scenario so far.
type atlas struct {
	Exploration
	mu     sync.Mutex
	known  map[uint64]bool
	open   [][]string // where paths begin that nobody has walked
	walked int        // paths that are being walked
	left   int        // paths that may yet be walked
}

// next returns where to walk; false when there is nothing left, and nothing will come.
func (m *atlas) next() (prefix []string, ok bool) {
	for {
		m.mu.Lock()
		if last := len(m.open) - 1; last >= 0 && m.left > 0 && len(m.Broken) == 0 {
			prefix, m.open = m.open[last], m.open[:last]
			m.walked++
			m.left--
			m.mu.Unlock()
			return prefix, true
		}
		idle := m.walked == 0 || m.left == 0 || len(m.Broken) > 0
		m.mu.Unlock()
		if idle {
			return nil, false
		}
		time.Sleep(time.Millisecond)
	}
}

func (m *atlas) add(w walk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.walked--
	m.Paths++
	if w.lost {
		m.Lost++
	}
	m.Depth = max(m.Depth, len(w.steps))
	m.open = append(m.open, w.branches...)
	if len(w.broken) > 0 {
		m.Failed, m.Broken = w.steps, w.broken
	}
}

// visit notes a state and reports whether it was known.
func (m *atlas) visit(state uint64) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known = m.known[state]
	m.known[state] = true
	return known
}

// walk is one path.
type walk struct {
	steps    []string
	branches [][]string // paths that turn off from it
	broken   []string
	lost     bool // it was not possible to follow the known path
}

// walkFrom walks along a path that is known, and then on to wherever nobody has been yet.
func walkFrom(ctx context.Context, s Scenario, registry func() []manager.Controller, prefix []string, m *atlas) (w walk) {
	c := newCell(ctx, s, registry)
	defer c.end()
	w.steps = slices.Clone(prefix)
	for _, step := range prefix {
		if step != tick && !slices.Contains(c.choices(), step) {
			w.lost = true // the manager did not do again what it did before
			return w
		}
		c.step(step)
	}
	for idle := 0; ; {
		state := c.state()
		if m.visit(state) && idle == 0 {
			w.broken, _ = c.judge(false, nil)
			return w
		}
		choices := c.choices()
		if len(choices) == 0 {
			if idle++; idle > idleTicks {
				w.broken, _ = c.judge(true, nil)
				return w
			}
			c.step(tick)
			w.steps = append(w.steps, tick)
			if c.state() != state {
				idle = 0
			}
			continue
		}
		idle = 0
		for _, other := range choices[1:] {
			w.branches = append(w.branches, append(slices.Clone(w.steps), other))
		}
		c.step(choices[0])
		w.steps = append(w.steps, choices[0])
	}
}

// idleTicks is after how many seconds without anything new the end has been reached: longer than a back-off.
const idleTicks = 65

// String is the exploration in a line.
func (x Exploration) String() string {
	extent := "all"
	if !x.Complete {
		extent = "not all"
	}
	text := fmt.Sprintf("%d states on %d paths of up to %d steps, %s that there are", x.States, x.Paths, x.Depth, extent)
	if x.Lost > 0 {
		text += fmt.Sprintf(" (%d paths were lost)", x.Lost)
	}
	if len(x.Failed) > 0 {
		text += fmt.Sprintf("\nbroken by %s:\n%s", strings.Join(x.Failed, ", "), strings.Join(x.Broken, "\n"))
	}
	return text
}
