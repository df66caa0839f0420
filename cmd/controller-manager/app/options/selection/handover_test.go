package selection

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

func TestHandover(t *testing.T) {
	o := New(controllers.Registry())
	all, ours, err := o.Handover()
	if err != nil {
		t.Fatal(err)
	}
	off := "-" + strings.ReplaceAll(ours, ",", ",-")
	without := func(list, name string) string { return strings.Replace(list, name+",", "", 1) }
	for _, test := range []struct{ name, today, original, beside string }{
		{"CLI-82 the default", "*", all, ours},
		{"CLI-82 kubeadm", "*,bootstrapsigner,tokencleaner", "*,bootstrapsigner,tokencleaner," + off, ours},
		{"CLI-82 a name without a dash goes, under whatever name", "podgc,*,deployment-controller", "*," + off, ours},
		{"CLI-82 what is off today stays off in both", "*,-podgc", "*,-podgc," + without(off, "-podgc"), without(ours, "podgc")},
		{"CLI-82 the first item decides", "*,-podgc,podgc", "*,-podgc,podgc," + without(off, "-podgc"), without(ours, "podgc")},
		{"CLI-82 without * the others are off", "podgc,csrsigning", "csrsigning,-podgc", "podgc"},
		{"CLI-82 nothing to take over", "csrsigning", "csrsigning", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o.Items = strings.Split(test.today, ",")
			original, beside, err := o.Handover()
			if err != nil || original != test.original || beside != test.beside {
				t.Errorf("got  %s and %s, %v\nwant %s and %s", original, beside, err, test.original, test.beside)
			}
		})
	}
	if o.Items = []string{"*", "podcg"}; true {
		if _, _, err := o.Handover(); err == nil || !strings.Contains(err.Error(), `did you mean "podgc"?`) {
			t.Errorf("an unknown name: %v", err)
		}
	}
}

// Whatever the original's list is, both lists together switch on what it alone did, and no controller is on in both.
func TestHandoverLosesAndDoublesNothing(t *testing.T) {
	o := New(controllers.Registry())
	names := append(o.Names(), "*")
	enabled := func(list string) []string {
		c := New(controllers.Registry())
		c.Items = strings.Split(list, ",")
		return c.Resolve(withKey).Enabled
	}
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + rapid.SampledFrom(names).Draw(t, "name")
		}), 1, 8).Filter(func(items []string) bool { return !slices.Contains(items, "-*") }).Draw(t, "items")
		o.Items = items
		original, beside, err := o.Handover()
		if err != nil {
			t.Fatal(err)
		}
		// A key decides about the controller of tokens, and it stays where the key is.
		there, here := enabled(original),
			slices.DeleteFunc(enabled(beside), func(name string) bool { return name == "serviceaccount-token-controller" })
		for _, name := range here {
			if slices.Contains(there, name) {
				t.Fatalf("%s is on in both: %s and %s", name, original, beside)
			}
		}
		both := append(there, here...)
		if slices.Sort(both); !slices.Equal(both, enabled(strings.Join(items, ","))) {
			t.Fatalf("%v is on in one of the two, want what %v switches on", both, items)
		}
	})
}
