package simulation

import (
	"flag"
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var crashesFlag = flag.String("crashes", "first",
	"for TestCrashAtEveryWrite: before which writes the manager dies, the first of each verb and resource, or \"all\"")

// TestCrashAtEveryWrite plays each scenario as often as its manager writes: the manager dies before the answer arrives. It also dies before
// a write is carried out, at the first one of each verb and resource; the search does so at each write. The next manager must finish the
// work, break no rule, and reach the same end.
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
	known := map[string]bool{}
	for write, what := range undisturbed.Writes {
		moments := []bool{true}
		if !known[what] || *crashesFlag == "all" {
			moments = append(moments, false)
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
