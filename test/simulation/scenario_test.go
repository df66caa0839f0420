package simulation

import (
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/plantest"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// TestScenarios plays the scenarios of all entries without faults.
func TestScenarios(t *testing.T) {
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			t.Run(s.Name, func(t *testing.T) {
				o := PlayScenario(t, s, ScenarioScript(1), controllers.Registry)
				t.Logf("%v of virtual time, %d changes, %d writes of the manager", o.Took, o.Changes, o.Writes)
				for _, v := range o.Violations {
					t.Error(v)
				}
			})
		}
	}
}

// TestFocused runs some random scripts in which users are busy with the objects of few controllers.
func TestFocused(t *testing.T) {
	for seed := range uint64(plantest.Tries(20, 2)) {
		s := suite.RandomFocused(seed)
		for _, v := range Run(t, s, controllers.Registry).Violations {
			t.Errorf("seed %d, %s: %s", seed, s.Settings["only"], v)
		}
	}
}
