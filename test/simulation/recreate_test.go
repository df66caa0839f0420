package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// TestRecreatedStatefulSets plays random scripts about a StatefulSet that recreates its pods, with two managers and faults (STS-76).
// The random workload has no such sets, as API servers of 1.37 refuse them by default, and its scripts are also for these.
func TestRecreatedStatefulSets(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s, err := script.Parse(strings.NewReader(recreation(seed)))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range Run(t, s, controllers.Registry).Violations {
				t.Error(v)
			}
		})
	}
}

// recreation is a script in which the template, the size and the pods of a set change every few seconds, and something fails now and then.
func recreation(seed uint64) string {
	g := rand.New(rand.NewPCG(seed, 1))
	pick := func(all ...string) string { return all[g.IntN(len(all))] }
	lines := []string{
		fmt.Sprint("seed ", seed), "set managers 2", "set standby 1",
		fmt.Sprintf("at 1s sts db replicas=%d image=good:1 pods=%s strategy=Recreate scaled=%s deleted=Retain", 1+g.IntN(4),
			pick("OrderedReady", "Parallel"), pick("Retain", "Delete")),
	}
	for second := 10; second < 70; second += 1 + g.IntN(9) {
		what := fmt.Sprintf("sts db image=%s:%d replicas=%d", pick("good", "good", "slow", "flaky"), g.IntN(3), g.IntN(5))
		switch g.IntN(3) {
		case 0:
			what = fmt.Sprintf("pod db n=%d do=%s", g.IntN(4), pick("delete", "evict", "relabel", "restore"))
		case 1:
			what = "fault " +
				pick("m0 pause for=12s", "m* down for=5s", "m* stop back=9s", "m* cut pods", "m* delay pods 2s for=10s",
					"m0 delay statefulsets 3s for=9s",
					"m* refuse n=3 code=500 after=true resource=pods", "m* refuse n=4 code=-1 after=false verb=delete",
					"m* refuse n=2 code=409 after=false verb=create")
		}
		lines = append(lines, fmt.Sprintf("at %ds %s", second, what))
	}
	return strings.Join(lines, "\n")
}
