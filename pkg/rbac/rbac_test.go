package rbac

import (
	"slices"
	"strings"
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

// Who only observes lists and watches. It gets what cannot be listed, and has no right that writes, whatever it is for.
func TestRightsOfAnObserver(t *testing.T) {
	rule := func(resource string, verbs ...string) Rule { return Rule{Resource: resource, Verbs: verbs} }
	implied := rule("pods", "get")
	implied.Implied = true
	review := Rule{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"}}
	all := map[string]Rights{
		Root: {Own: []Rule{rule("secrets", "get", "update")}},
		"a": {
			Caches: []Resource{{Name: "pods"}},
			Own: []Rule{rule("nodes", "get", "list", "patch"), rule("pods", "delete"), rule("things/scale", "get", "update"), implied,
				review, {Group: "*", Resource: "*", Verbs: []string{"get", "delete"}}},
			In: map[string][]Rule{"kube-public": {rule("configmaps", "get", "update")}, "kube-system": {rule("leases", "update")}},
		},
	}
	got := Observer(all)
	for _, rules := range append([][]Rule{got.Own}, got.In["kube-public"], got.In[Home]) {
		for _, r := range rules {
			for _, verb := range r.Verbs {
				reviews := verb == "create" && strings.HasSuffix(r.Resource, "reviews")
				gets := verb == "get" && slices.Contains([]string{"things/scale", "apiservices"}, r.Resource)
				if verb != "list" && verb != "watch" && !reviews && !gets && r.Names == nil {
					t.Errorf("%s %s", verb, r.Resource)
				}
			}
		}
	}
	for _, want := range []Rule{rule("nodes", "list"), rule("things/scale", "get"), rule("secrets", "list"), review,
		{Group: "*", Resource: "*", Verbs: []string{"list"}}} {
		if !slices.ContainsFunc(got.Own, func(r Rule) bool {
			return r.Group == want.Group && r.Resource == want.Resource && slices.Equal(r.Verbs, want.Verbs)
		}) {
			t.Errorf("there is no %+v in %+v", want, got.Own)
		}
	}
	if len(got.In["kube-public"]) != 1 || len(got.In[Home]) != 1 || len(got.Caches) > 0 {
		t.Errorf("%+v", got)
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
