package simulation

import (
	"testing"
	"testing/synctest"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// TestScenarios plays the scenarios of all entries without faults.
func TestScenarios(t *testing.T) {
	for _, e := range suite.Entries() {
		for _, s := range e.Scenarios {
			t.Run(s.Name, func(t *testing.T) {
				o := PlayScenario(t, s, ScenarioScript(1), controllers.Registry)
				t.Logf("%v of virtual time, %d changes, %d writes of the manager", o.Took, o.Changes, len(o.Writes))
				for _, v := range o.Violations {
					t.Error(v)
				}
				if n := o.record.atOnce; n > suite.TerminatedThreshold && e.Controller != "pod-garbage-collector-controller" {
					t.Errorf("%d pods have ended and are there: when podgc deletes some, and so the end, depends on its period", n)
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

// A client sees that nothing is wrong in its part of a cluster, and looks at what there is.
func TestUnsettledAskedByAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(ScenarioScript(1), controllers.Registry)
		w.furnish()
		defer w.animate(t.Context())()
		w.at(w.start)
		user := w.player(t)
		w.perform(user, func(u *suite.User) {
			u.Create(suite.Deployment("web", 2))
			u.Expose("web")
			u.AddNodes(2)
			u.CreateDaemonSet("agent", 1)
			u.WaitComplete("web")
			u.WaitDaemonSet("agent", 2)
		})
		if !w.rest() {
			t.Error("it does not come to rest")
		}
		w.perform(user, func(u *suite.User) {
			wrong, looked := suite.Unsettled(u.Source(suite.RootCAFile()), w.runs)
			for _, text := range wrong {
				t.Error(text)
			}
			for controller, n := range map[string]int{
				"daemonset-controller": 1, "ttl-controller": 5, "namespace-controller": 3, // that of the user, kube-system and kube-public
				"root-ca-certificate-publisher-controller": 3, "garbage-collector-controller": 15,
			} {
				if got := looked[controller]; got < n {
					t.Errorf("for %s it has looked at %d things, not %d or more", controller, got, n)
				}
			}
		})
		w.finish()
		for _, broken := range w.record.broken {
			t.Error(broken)
		}
	})
}
