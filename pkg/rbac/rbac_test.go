package rbac

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRightsOfOneAccountMerge(t *testing.T) {
	events := Rule{Resource: "events", Verbs: []string{"create"}, For: "events"}
	for _, c := range []struct {
		name       string
		a, b, want Rights
	}{
		{"nothing", Rights{}, Rights{}, Rights{}},
		{"a cache that both read is there once",
			Rights{Caches: []Resource{{Name: "pods"}}}, Rights{Caches: []Resource{{Name: "pods"}, {Name: "nodes"}}},
			Rights{Caches: []Resource{{Name: "pods"}, {Name: "nodes"}}}},
		{"a rule that both have is there once, whatever it is for",
			Rights{Own: []Rule{events}}, Rights{Own: []Rule{{Resource: "events", Verbs: []string{"create"}, For: "other events"}}},
			Rights{Own: []Rule{events}}},
		{"rules with other names of objects stay apart",
			Rights{Own: []Rule{{Resource: "leases", Verbs: []string{"get"}, Names: []string{"a"}}}},
			Rights{Own: []Rule{{Resource: "leases", Verbs: []string{"get"}, Names: []string{"b"}}}},
			Rights{Own: []Rule{
				{Resource: "leases", Verbs: []string{"get"}, Names: []string{"a"}},
				{Resource: "leases", Verbs: []string{"get"}, Names: []string{"b"}},
			}}},
		{"rules of a namespace stay in it",
			Rights{In: map[string][]Rule{"kube-system": {events}}},
			Rights{Own: []Rule{events}, In: map[string][]Rule{"kube-public": {events}}},
			Rights{Own: []Rule{events}, In: map[string][]Rule{"kube-system": {events}, "kube-public": {events}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.a.Merge(c.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Controllers of the root identity add their rights to it, and are no accounts.
// What is behind a feature gate is left out while the gate is off.
func TestRightsWithGates(t *testing.T) {
	rule := func(gate string) Rule { return Rule{Resource: "pods", Verbs: []string{"get"}, Gate: gate} }
	all := Rights{
		Caches: []Resource{{Name: "pods"}, {Name: "nodes", Gate: "On"}, {Name: "secrets", Gate: "Off"}},
		Own:    []Rule{rule(""), rule("On"), rule("Off")},
		In:     map[string][]Rule{Home: {rule("Off"), rule("On")}},
	}
	want := Rights{Caches: all.Caches[:2], Own: all.Own[:2], In: map[string][]Rule{Home: {rule("On")}}}
	if diff := cmp.Diff(want, all.With(func(gate string) bool { return gate == "On" })); diff != "" {
		t.Error(diff)
	}
	if err := all.MayCache(schema.GroupResource{Resource: "nodes"}); err != nil {
		t.Error(err)
	}
}

func TestRightsOfRootControllers(t *testing.T) {
	secrets := Rule{Resource: "secrets", Verbs: []string{"update"}, For: "tokens"}
	root := Manager(map[string]Rights{Root: {Own: []Rule{secrets}, Caches: []Resource{{Name: "secrets"}}}, "a": {}})
	found := 0
	for _, r := range root.Cluster {
		if r.Resource == "secrets" {
			found++
		}
	}
	if found != 2 { // the cache, and the right
		t.Errorf("%+v", root.Cluster)
	}
	for _, r := range root.Home {
		if r.Resource == "serviceaccounts/token" && (len(r.Names) != 1 || r.Names[0] != "a") {
			t.Errorf("tokens of %v", r.Names)
		}
	}
}
