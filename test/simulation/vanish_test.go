package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// TestGroupsThatVanish leaves API groups out of discovery for a while, also while a manager begins. Nothing may be deleted
// because of that (GC-9). Namespaces are left alone, as what is in them is what discovery shows.
func TestGroupsThatVanish(t *testing.T) {
	entries := slices.DeleteFunc(suite.Entries(), func(e suite.Entry) bool { return e.Controller == "namespace-controller" })
	judged := 0
	for seed := range uint64(plantest.Tries(10, 2)) {
		s := suite.MixOf(entries...).Random(seed)
		s.Settings["garbage"] = "0"
		group := []string{"apps", "discovery.k8s.io"}[seed%2]
		add(t, &s, time.Duration(seed)*time.Second, fmt.Sprintf("fault m* vanish %s for=70s", group))
		o := Run(t, s, controllers.Registry)
		for _, v := range o.Violations {
			t.Errorf("seed %d: %s\n%s", seed, v, s)
		}
		judged += o.Counts["S16"].Judged
	}
	if judged == 0 {
		t.Error("S16 had nothing to judge")
	}
}
