package simulation

import (
	"flag"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

func scenario(name string, crashes int, lines ...string) Scenario {
	var s script.Script
	for _, l := range lines {
		s.Add(0, "%s", l)
	}
	return Scenario{Name: name, Lines: s.Lines, Crashes: crashes}
}

// pathsFlag is how far TestExhaustive goes.
var pathsFlag = flag.Int("paths", 40, "for TestExhaustive: how many paths of each scenario are walked, if there are so many")

// TestExhaustive explores small scenarios, of one Deployment or StatefulSet of up to three replicas.
func TestExhaustive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	for _, s := range []Scenario{
		scenario("one replica", 0, "create web replicas=1 image=good:1"),
		scenario("one replica, new image", 0, "create web replicas=1 image=good:1", "image web good:2"),
		scenario("one replica, new image, a crash", 1, "create web replicas=1 image=good:1", "image web good:2"),
		scenario("two replicas, scaled", 0, "create web replicas=1 image=good:1", "edit web replicas=2", "edit web replicas=0"),
		scenario("two replicas, recreated", 0, "create web replicas=2 image=good:1 strategy=Recreate", "image web good:2"),
		scenario("three replicas, new image", 0, "create web replicas=3 image=good:1 surge=1 unavailable=1", "image web good:2"),
		scenario("three replicas, new image, back", 0, "create web replicas=3 image=good:1", "image web good:2", "image web good:1"),
		scenario("a pod is deleted", 0, "create web replicas=2 image=good:1", "pod web n=0 do=delete", "edit web replicas=1"),
		scenario("a StatefulSet, recreated", 0, "sts db replicas=2 image=good:1 pods=Parallel strategy=Recreate", "sts db image=good:2"),
		scenario("a StatefulSet, recreated, and a pod is given back, a crash", 1,
			"sts db replicas=2 image=good:1 pods=Parallel strategy=Recreate",
			"pod db n=0 do=relabel", "sts db image=good:2", "pod db n=0 do=restore"),
		scenario("a pod is taken away and given back", 0, "create web replicas=1 image=good:1", "pod web n=0 do=relabel",
			"pod web n=0 do=restore"),
	} {
		t.Run(s.Name, func(t *testing.T) {
			x := Explore(t, s, controllers.Registry, *pathsFlag)
			t.Log(x)
			switch {
			case len(x.Broken) > 0:
				t.Error("a rule was broken")
			case !x.Complete && x.Paths < *pathsFlag:
				t.Errorf("%d paths were walked", x.Paths)
			case seedBubble != nil && x.Lost > 0:
				t.Error("the manager does not do again what it did before")
			}
		})
	}
}
