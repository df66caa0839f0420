package suite

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/faults"
)

// Each controller of the registry has an entry, in which nothing is missing.
func TestEveryControllerHasAnEntry(t *testing.T) {
	entries := Entries()
	for _, controller := range controllers.Registry() {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Controller == controller.Name })
		if i < 0 {
			t.Errorf("%s has no entry", controller.Name)
			continue
		}
		e := entries[i]
		entries = slices.Delete(entries, i, i+1)
		for what, n := range map[string]int{
			"malformed objects": len(e.Malformed), "mutants": len(e.Mutants), "write budgets": len(e.Budgets),
		} {
			if n == 0 {
				t.Errorf("%s has no %s", e.Controller, what)
			}
		}
		if (len(e.Choices) == 0) != (e.NoChoices != "") {
			t.Errorf("%s has %d choices for the random workload, and says why there are none: %q", e.Controller, len(e.Choices),
				e.NoChoices)
		}
		if (len(e.Scenarios) == 0) != (e.NoScenarios != "") {
			t.Errorf("%s has %d crash scenarios, and says why there are none: %q", e.Controller, len(e.Scenarios), e.NoScenarios)
		}
	}
	for _, e := range entries {
		t.Errorf("there is no controller %s", e.Controller)
	}
}

// GatesFlag opens all feature gates that are closed by default and that controllers need.
func TestGatesFlag(t *testing.T) {
	for _, controller := range controllers.Registry() {
		for _, gate := range controller.Gates {
			if !(manager.Options{}).Enabled(gate) && !strings.Contains(GatesFlag, gate+"=true") {
				t.Errorf("%s needs %s, which %s does not open", controller.Name, gate, GatesFlag)
			}
		}
	}
}

// A node that is open to any pod is refused before anybody is asked: pods of other runs would come to it, and wait for a kubelet for ever.
func TestNodesAreReserved(t *testing.T) {
	u := &User{Namespace: "shop"}
	for _, c := range []struct {
		name  string
		edit  func(*corev1.Node)
		takes bool
	}{
		{"tainted for its user", func(*corev1.Node) {}, false},
		{"without taints", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		{"with one that only asks", func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule }, true},
		{"that evicts", func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute }, false},
		{"unschedulable", func(n *corev1.Node) { n.Spec.Taints, n.Spec.Unschedulable = nil, true }, false},
		{"without room", func(n *corev1.Node) { n.Spec.Taints, n.Status = nil, corev1.NodeStatus{} }, false},
	} {
		n := u.newNode(1)
		c.edit(n)
		if got := takesPods(n); got != c.takes {
			t.Errorf("%s: takes pods: %t", c.name, got)
		}
		if c.takes {
			if err := create(u, n); err == nil {
				t.Errorf("%s: it is created", c.name)
			}
		}
	}
}

// Names are unique, so that results can be told apart, and malformed objects are JSON all the same.
func TestEntriesAreSound(t *testing.T) {
	seen := map[string]bool{}
	name := func(kind, text string) {
		if seen[kind+text] {
			t.Errorf("two %s are called %q", kind, text)
		}
		seen[kind+text] = true
	}
	for _, e := range Entries() {
		for _, s := range e.Scenarios {
			name("scenarios", s.Name)
		}
		for _, b := range e.Budgets {
			name("budgets", b.Name)
		}
		for word := range e.Operations {
			name("operations", word)
		}
		for path, object := range e.Malformed {
			name("objects", path)
			object = strings.ReplaceAll(object, `"metadata":${META}`, `"metadata":{}`)
			if object = strings.ReplaceAll(object, `,${META}`, ""); !json.Valid([]byte(object)) {
				t.Errorf("%s is not JSON: %s", path, object)
			}
		}
	}
	for _, m := range Mutants() {
		name("mutants", m.Name)
	}
}

// Random scripts around a controller run it, do what there are operations for, and meet resources that it works on. A seed is one script.
func TestRandomAround(t *testing.T) {
	for _, c := range controllers.Registry() {
		e, rights := entryOf(c.Name), c.Rights()
		own, met := resourcesOf(rights), 0
		for seed := range uint64(20) {
			s := RandomAround(e.Controller, rights, seed)
			if again := RandomAround(e.Controller, rights, seed); again.String() != s.String() {
				t.Errorf("%s: seed %d is two scripts:\n%s\n%s", e.Controller, seed, s, again)
			}
			if !slices.Contains(strings.Split(s.Settings["only"], ","), e.Controller) {
				t.Errorf("%s: seed %d runs only %s", e.Controller, seed, s.Settings["only"])
			}
			faulty := false
			for _, l := range s.Lines {
				switch {
				case l.Op() == "fault":
					faulty = true
					if f, err := faults.Parse(l); err != nil {
						t.Errorf("%s: seed %d: %v", e.Controller, seed, err)
					} else if resource, _, _ := strings.Cut(f.Resource, "/"); slices.Contains(own, resource) {
						met++
					}
				case operations()[l.Op()] == nil:
					t.Errorf("%s: seed %d: there is no operation for %q", e.Controller, seed, l)
				}
			}
			if seed%2 == 1 && !faulty {
				t.Errorf("%s: seed %d has no faults", e.Controller, seed)
			}
		}
		if met == 0 && len(own) > 0 {
			t.Errorf("%s: no fault meets what it works on: %v", e.Controller, own)
		}
	}
}

// Random scripts that look for a mutant stay with a controller that there is.
func TestMutantsAreAroundControllers(t *testing.T) {
	for _, m := range Mutants() {
		if !slices.ContainsFunc(Entries(), func(e Entry) bool { return e.Controller == m.Around }) {
			t.Errorf("%q is around %q", m.Name, m.Around)
		}
	}
}
