package garbagecollector

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// GC-1: the names by which flags, logs, roles and clients know the controller.
func TestGC1Names(t *testing.T) {
	c := New(Options{})
	got := []string{c.Name, c.Alias, c.Account}
	if diff := cmp.Diff([]string{"garbage-collector-controller", "garbagecollector", "generic-garbage-collector"}, got); diff != "" ||
		c.OffByDefault {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// GC-3: it can be switched off by a flag of its own. GC-4: the defaults.
func TestOptions(t *testing.T) {
	c := New(Options{})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags.AddFlags(flags)
	if got := flags.Lookup("concurrent-gc-syncs").DefValue + flags.Lookup("enable-garbage-collector").DefValue; got != "20true" {
		t.Errorf("defaults are %s", got)
	}
	if err := flags.Parse([]string{"--enable-garbage-collector=false", "--concurrent-gc-syncs=0"}); err != nil {
		t.Fatal(err)
	}
	if errs := c.Flags.Validate(); len(errs) != 1 {
		t.Errorf("no workers: %v", errs)
	}
	r, err := c.Init(manager.Context{})
	if off := (manager.Off{Why: "--enable-garbage-collector=false"}); r != nil || err != off {
		t.Errorf("switched off: %v, %v", r, err)
	}
}

// GC-5, REG-70: it may send twice as many requests as the flags say.
func TestLimits(t *testing.T) {
	burst, perSecond := managertest.Limits(t, func(c manager.Context) (client.Client, error) {
		c.RegisterMetrics = func(...metrics.Registerable) {}
		built, err := New(Options{}).Init(c)
		if err != nil {
			return nil, err
		}
		return built.(*runner).client, nil
	})
	if burst != 1 || perSecond != 2 {
		t.Errorf("where others have 1 and 1, it has %d at once and %d a second", burst, perSecond)
	}
}

// GC-57: all of the graph, or what is connected with some objects.
func TestDot(t *testing.T) {
	w := newWorld()
	w.see(setKind, object("set"))
	w.see(podKind, object("a", ownedBy(setKind, "set")), object("b", ownedBy(setKind, "never-seen")))
	var all, part strings.Builder
	if err := writeDot(&all, w.draw()); err != nil {
		t.Fatal(err)
	}
	if err := writeDot(&part, w.draw("set", "no such uid")); err != nil {
		t.Fatal(err)
	}
	want := `strict digraph full {
  "a" [label="uid=a\nnamespace=shop\nv1 Pod\na\nbeingDeleted=false waitingForDependents=false\n"];
  "set" [label="uid=set\nnamespace=shop\napps/v1 ReplicaSet\nset\nbeingDeleted=false waitingForDependents=false\n"];
  "a" -> "set";
}
`
	if diff := cmp.Diff(want, part.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := all.String(); !strings.Contains(text, `"b" -> "never-seen"`) ||
		!strings.Contains(text, `apps/v1 ReplicaSet shop/never-seen: unverified`) {
		t.Error(text)
	}
}
