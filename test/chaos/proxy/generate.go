package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Generate makes a script of faults for the given time from a seed: the same seed makes the same script. No fault lasts
// longer than longest.
func Generate(seed uint64, horizon, longest time.Duration) (*Script, error) {
	g := generator{rand.New(rand.NewPCG(seed, 0)), horizon, longest}
	lines := []string{fmt.Sprintf("seed %d", seed)}
	for range 3 + g.IntN(4) {
		lines = append(lines, g.rule())
	}
	return Parse(strings.Join(lines, "\n"))
}

type generator struct {
	*rand.Rand
	horizon, longest time.Duration
}

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// lasts is a duration, short ones being as likely as long ones.
func (g generator) lasts() time.Duration {
	return max(50*time.Millisecond, time.Duration(g.Float64()*g.Float64()*float64(g.longest))).Round(10 * time.Millisecond)
}

// window says when the rule holds.
func (g generator) window() string {
	begin := time.Duration(g.Float64() * float64(g.horizon)).Round(100 * time.Millisecond)
	return fmt.Sprintf("after=%v for=%v", begin, (g.horizon / 4).Round(100*time.Millisecond))
}

func (g generator) rule() string {
	watched := g.pick("pods", "replicasets", "deployments", "services", "endpoints", "*")
	written := g.pick("pods", "replicasets/*", "deployments/*", "endpoints", "*")
	refusal := g.pick("429", "429 1", "500", "503", "504")
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("event %s %s p=0.3 : delay %v", watched, g.window(), g.lasts())
	case 1:
		return fmt.Sprintf("event %s %s times=2 : freeze %v", watched, g.window(), g.lasts())
	case 2:
		return fmt.Sprintf("event %s %s times=2 : drop %v", watched, g.window(), g.lasts())
	case 3:
		return fmt.Sprintf("event,watch %s %s times=3 : gone", watched, g.window())
	case 4:
		return fmt.Sprintf("write %s %s p=0.2 : answer %s", written, g.window(), g.pick("409", refusal))
	case 5:
		return fmt.Sprintf("write %s %s p=0.2 : commit %s", written, g.window(), g.pick("timeout", "cut", "hang "+g.lasts().String()))
	case 6:
		return fmt.Sprintf("get,list,watch %s %s p=0.3 : answer %s", watched, g.window(), refusal)
	case 7:
		return fmt.Sprintf("* * %s every=20 times=3 : %s", g.window(), g.pick("cut", "reset"))
	}
	return fmt.Sprintf("* * %s p=0.2 : delay %v", g.window(), g.lasts())
}
