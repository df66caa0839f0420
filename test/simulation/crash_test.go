package simulation

import (
	"flag"
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var crashesFlag = flag.String("crashes", "some",
	"for TestCrashAtEveryWrite: at which writes the manager dies, the first and the last of each verb and resource, or \"all\"")

// TestCrashAtEveryWrite plays each scenario many times. The manager dies before the answer to a write arrives, the first one of each verb
// and resource, and the last; and before the first one is carried out. The search of a night has it die before and after each write. The
// next manager must finish the work, break no rule, and reach the same end.
func TestCrashAtEveryWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("plays each scenario many times")
	}
	if seedBubble == nil {
		t.Skip("without the overlay of test/overlay the writes of one run are not those of the next: make simulate")
	}
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			t.Run(s.Name, func(t *testing.T) { crashes(t, s) })
		}
	}
}

func crashes(t *testing.T, s suite.Scenario) {
	play := func(fault string) (o Outcome) {
		played := ScenarioScript(1)
		played.Settings["compare"], played.Settings["heal"] = "1", "0" // the crash may come when the user has done
		if fault != "" {
			played.Add(0, "%s", fault)
		}
		return PlayScenario(t, s, played, controllers.Registry)
	}
	undisturbed := play("")
	if len(undisturbed.Writes) == 0 {
		t.Error("the manager writes nothing")
	}
	t.Logf("%d writes", len(undisturbed.Writes))
	last := map[string]int{}
	for write, what := range undisturbed.Writes {
		last[what] = write
	}
	known := map[string]bool{}
	for write, what := range undisturbed.Writes {
		var moments []bool
		switch {
		case !known[what] || *crashesFlag == "all":
			moments = []bool{true, false}
		case write == last[what]:
			moments = []bool{true}
		}
		known[what] = true
		for _, after := range moments {
			fault := fmt.Sprintf("fault m0 crash writes=%d after=%v back=1s", write, after)
			o := play(fault)
			if o.Deaths != 1 {
				t.Errorf("%s: the manager has died %d times", fault, o.Deaths)
			}
			for _, v := range append(o.Violations, differences(undisturbed.end, o.end)...) {
				t.Errorf("%s: %s", fault, v)
			}
		}
	}
}
