package clusterroleaggregation

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rule is one about a resource.
func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// role is a ClusterRole that is labelled for others.
func role(name string, labels map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", ResourceVersion: "1", Labels: labels}, Rules: rules}
}

// to are the labels that well-known ClusterRoles select (SM-8).
func to(name string) map[string]string {
	return map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + name: "true"}
}

func match(labels map[string]string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: labels}
}

var (
	everything = metav1.LabelSelector{}
	broken     = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Perhaps"}}}
)

// aggregate gives a role an aggregation rule.
func aggregate(r *rbacv1.ClusterRole, selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
	return r
}

// owned gives the rules of a role to this controller, as a server does when they are applied.
func owned(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
	r.ManagedFields = entries("clusterrole-aggregation-controller", metav1.ManagedFieldsOperationApply, `{"f:rules":{}}`)
	return r
}

// entries are the managedFields of an object in which somebody has written fields.
func entries(manager string, operation metav1.ManagedFieldsOperationType, fields string) []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "rbac.authorization.k8s.io/v1",
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}
	entry.FieldsV1.SetRawString(fields)
	return []metav1.ManagedFieldsEntry{entry}
}

// planned plans for a role among others.
func planned(t interface{ Fatal(...any) }, r *rbacv1.ClusterRole, others ...*rbacv1.ClusterRole) plan.Plan {
	found, err := sources(r, func(*metav1.LabelSelector) []*rbacv1.ClusterRole { return append(others, r) })
	if err != nil {
		t.Fatal(err)
	}
	return planRules(epoch, snapshot{r, found, ownsRules(r.ManagedFields)})
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	get, list, watch := rule("pods", "get"), rule("pods", "list"), rule("pods", "watch")
	type roles = []*rbacv1.ClusterRole
	for _, c := range []struct {
		name   string
		role   *rbacv1.ClusterRole
		others roles
		want   []rbacv1.PolicyRule // that are applied; nil for no write, empty where the field is absent
	}{
		{"SM-2 the rules of those that match", aggregate(role("r", nil), match(to("r"))),
			roles{role("a", to("r"), get, list), role("b", to("x"), watch)}, []rbacv1.PolicyRule{get, list}},
		{"SM-2 by name", aggregate(role("r", nil), match(to("r"))), roles{role("b", to("r"), get), role("a", to("r"), list)},
			[]rbacv1.PolicyRule{list, get}},
		{"SM-2 selectors come in order", aggregate(role("r", nil), match(to("y")), match(to("x"))),
			roles{role("a", to("x"), get), role("b", to("y"), list)}, []rbacv1.PolicyRule{list, get}},
		{"SM-2 one that two selectors match counts once", aggregate(role("r", nil), match(to("r")), everything),
			roles{role("b", to("r"), get), role("a", nil, list)}, []rbacv1.PolicyRule{get, list}},
		{"SM-2 a rule that two have counts once", aggregate(role("r", nil), everything),
			roles{role("a", nil, get, list), role("b", nil, list, get, watch)}, []rbacv1.PolicyRule{get, list, watch}},
		{"SM-2 the order of what a rule lists matters", aggregate(role("r", nil), everything),
			roles{role("a", nil, rule("pods", "get", "list"), rule("pods", "list", "get"))},
			[]rbacv1.PolicyRule{rule("pods", "get", "list"), rule("pods", "list", "get")}},
		{"SM-2 it does not aggregate itself", aggregate(role("r", to("r"), get), match(to("r"))), roles{role("a", to("r"), list)},
			[]rbacv1.PolicyRule{list}},
		{"SM-7 a role that aggregates others stands for them", aggregate(role("r", nil), match(to("r"))),
			roles{aggregate(role("a", to("r"), watch), match(to("a"))), role("b", to("a"), get), role("c", to("r"), list)},
			[]rbacv1.PolicyRule{get, list}},
		{"SM-7 in a cycle no rule comes from nowhere", aggregate(role("r", to("a"), watch), match(to("r"))),
			roles{aggregate(role("a", to("r"), watch), match(to("a"))), role("b", to("a"), get)}, []rbacv1.PolicyRule{get}},
		{"SM-3 an empty selector matches all", aggregate(role("r", nil), everything), roles{role("a", nil, get)}, []rbacv1.PolicyRule{get}},
		{"SM-4 the rules are there", aggregate(role("r", nil, get, list), everything), roles{role("a", nil, get, list)}, nil},
		{"SM-4 no list is equal to an empty one", aggregate(role("r", nil, get), everything), roles{role("a", nil, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}, ResourceNames: []string{},
			NonResourceURLs: []string{},
		})}, nil},
		{"SM-12 the rules are there in another order", aggregate(role("r", nil, list, get), everything), roles{role("a", nil, get, list)},
			nil},
		{"SM-4 a rule is there twice", aggregate(role("r", nil, get, get, list), everything), roles{role("a", nil, get, list)},
			[]rbacv1.PolicyRule{get, list}},
		{"SM-6 the rules of somebody else go", aggregate(role("r", nil, get, watch), everything), roles{role("a", nil, get)},
			[]rbacv1.PolicyRule{get}},
		{"SM-6 rules that were applied go when nothing matches", owned(aggregate(role("r", nil, get), match(to("r")))),
			roles{role("a", nil, list)}, []rbacv1.PolicyRule{}},
		{"SM-6 rules that were applied go when nobody else has rules", owned(aggregate(role("r", nil, get), match(to("r")))),
			roles{role("a", to("r"), rule("pods"))}, []rbacv1.PolicyRule{}},
		{"SM-6 rules of somebody else stay when nothing matches", aggregate(role("r", nil, get), match(to("r"))),
			roles{role("a", nil, list)}, nil},
		{"SM-6 rules of somebody else stay when nobody else has rules", aggregate(role("r", nil, get), match(to("r"))),
			roles{role("a", to("r"))}, nil},
		{"SM-6 nothing matches and nothing is there", aggregate(role("r", nil), match(to("r"))), nil, nil},
		{"SM-6 there are no selectors", owned(aggregate(role("r", nil, get))), roles{role("a", nil, list)}, []rbacv1.PolicyRule{}},
		{"SM-6 there are no selectors, and rules of somebody else", aggregate(role("r", nil, get)), roles{role("a", nil, list)}, nil},
		{"SM-6 it selects only itself", aggregate(role("r", to("r"), get), match(to("r"))), nil, nil},
		{"SM-6, SM-7 a role that selects nothing has its rules for others", aggregate(role("r", nil), match(to("r"))),
			roles{aggregate(role("a", to("r"), get), match(to("a")))}, []rbacv1.PolicyRule{get}},
		{"SM-6, SM-7 and so has one that selects only itself", aggregate(role("r", nil), match(to("r"))),
			roles{aggregate(role("a", to("r"), get), match(to("a"))),
				aggregate(role("b", map[string]string{"x": "y", "rbac.authorization.k8s.io/aggregate-to-r": "true"}, list),
					match(map[string]string{"x": "y"}))}, []rbacv1.PolicyRule{get, list}},
		{"SM-7 in a cycle rules that were applied go with the last source", owned(aggregate(role("r", to("a"), get), match(to("r")))),
			roles{owned(aggregate(role("a", to("r"), get), match(to("a"))))}, []rbacv1.PolicyRule{}},
		{"a rule that grants nothing is left out", aggregate(role("r", nil), everything),
			roles{role("a", nil, rule("pods"), rbacv1.PolicyRule{Verbs: []string{"get"}}, get)}, []rbacv1.PolicyRule{get}},
		{"a rule about paths", aggregate(role("r", nil), everything),
			roles{role("a", nil, rbacv1.PolicyRule{NonResourceURLs: []string{"/x"}, Verbs: []string{"get"}})},
			[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/x"}, Verbs: []string{"get"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(t, c.role, c.others...)
			if p.Why == "" {
				t.Error("the plan does not say why")
			}
			var got []rbacv1.PolicyRule
			if len(p.Steps) == 1 {
				got, _ = written(p)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
		})
	}
	for _, r := range []*rbacv1.ClusterRole{nil, role("r", nil, get)} { // SM-9
		if p := planRules(epoch, snapshot{Role: r}); !p.Empty() || p.Why == "" {
			t.Errorf("it writes: %s", p.Why)
		}
	}
}

// What is sent is an apply of the rules alone, under the name that owns them, to this very role (SM-5).
func TestApply(t *testing.T) {
	r := owned(aggregate(role("r", to("x"), rule("pods", "list")), everything))
	r.Annotations = map[string]string{"mine": "x"}
	for _, c := range []struct {
		others []*rbacv1.ClusterRole
		want   string
	}{
		{[]*rbacv1.ClusterRole{role("a", nil, rule("pods", "get"))},
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r","uid":"u-1"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{nil, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r","uid":"u-1"}}`}, // SM-6
	} {
		change := planned(t, r, c.others...).Steps[0].(plan.Change)
		if change.Old != plan.Object(r) || change.Apply == nil ||
			*change.Apply != (plan.Apply{FieldManager: "clusterrole-aggregation-controller", Force: true}) {
			t.Errorf("%+v", change)
		}
		patch, err := client.MappingFor[*rbacv1.ClusterRole]().Applied(change.New, client.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(patch.Data); got != c.want {
			t.Errorf("the patch is %s", got)
		}
	}
}

// The rules are this controller's if it has applied them, and nobody has written others since (SM-5, SM-6).
func TestOwnersOfRules(t *testing.T) {
	const manager, apply, update = "clusterrole-aggregation-controller", metav1.ManagedFieldsOperationApply,
		metav1.ManagedFieldsOperationUpdate
	for _, c := range []struct {
		name   string
		fields []metav1.ManagedFieldsEntry
		want   bool
	}{
		{"SM-5 they were applied", entries(manager, apply, `{"f:rules":{}}`), true},
		{"SM-5 other fields, too", entries(manager, apply, `{"f:metadata":{"f:labels":{}},"f:rules":{}}`), true},
		{"SM-5 other fields alone", entries(manager, apply, `{"f:metadata":{"f:labels":{"f:rules":{}}}}`), false},
		{"SM-6 somebody else applied them", entries("kubectl", apply, `{"f:rules":{}}`), false},
		{"SM-6 they were written in another way", entries(manager, update, `{"f:rules":{}}`), false},
		{"SM-6 both have applied them", append(entries("kubectl", apply, `{"f:rules":{}}`), entries(manager, apply, `{"f:rules":{}}`)...),
			true},
		{"nothing is known", nil, false},
		{"nothing is known of the fields", []metav1.ManagedFieldsEntry{{Manager: manager, Operation: apply}}, false},
		{"the fields are damaged", entries(manager, apply, `{"f:rules"`), false},
	} {
		if got := ownsRules(c.fields); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestSelectorsThatAreInvalid(t *testing.T) { // SM-3
	r := aggregate(role("r", nil), everything, broken)
	if _, err := sources(r, func(*metav1.LabelSelector) []*rbacv1.ClusterRole { return nil }); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("the error is %v", err)
	}
	if !selects(r, role("a", nil)) || selects(aggregate(role("r", nil), broken), role("a", nil)) {
		t.Error("an invalid selector matches, or hinders another one")
	}
	get := rule("pods", "get")
	p := planned(t, aggregate(role("z", nil), match(to("z"))), aggregate(role("r", to("z"), get), broken))
	if rules, _ := written(p); len(rules) != 1 {
		t.Errorf("of a role that selects one with an invalid selector: %s", p.Why)
	}
}

// What a change of a role enqueues: its own key, and those of roles whose rules it changes (SM-1, SM-11).
func TestChangesThatConcernRoles(t *testing.T) {
	get, list := rule("pods", "get"), rule("pods", "list")
	version := func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
		r.ResourceVersion = "2"
		return r
	}
	annotated := version(role("a", to("r"), get))
	annotated.Annotations = map[string]string{"x": "y"}
	both := map[string]string{"rbac.authorization.k8s.io/aggregate-to-a": "true", "rbac.authorization.k8s.io/aggregate-to-r": "true"}
	for _, c := range []struct {
		name          string
		before, after *rbacv1.ClusterRole
		self, other   bool
	}{
		{"SM-1 a new one that matches", nil, role("a", to("r"), get), false, true},
		{"SM-11 a new one that does not", nil, role("a", to("x"), get), false, false},
		{"SM-1 one that matches is gone", role("a", to("r"), get), nil, false, true},
		{"SM-11 one that did not match is gone", role("a", nil, get), nil, false, false},
		{"SM-1 its rules change", role("a", to("r"), get), version(role("a", to("r"), list)), false, true},
		{"SM-1 it begins to match", role("a", nil, get), version(role("a", to("r"), get)), false, true},
		{"SM-1 it no longer matches", role("a", to("r"), get), version(role("a", nil, get)), false, true},
		{"SM-11 other labels change", role("a", to("r"), get),
			version(role("a", map[string]string{"rbac.authorization.k8s.io/aggregate-to-r": "true", "x": "y"}, get)), false, false},
		{"SM-11 something else changes", role("a", to("r"), get), annotated, false, false},
		{"SM-11 a resync", role("a", to("r"), get), role("a", to("r"), get), false, false},
		{"SM-9 a new one that aggregates", nil, aggregate(role("a", nil), everything), true, false},
		{"SM-9 one that aggregates is gone", aggregate(role("a", nil), everything), nil, true, false},
		{"SM-9 one that begins to aggregate", role("a", nil), version(aggregate(role("a", nil), everything)), true, false},
		{"SM-9 one that aggregates no longer", aggregate(role("a", nil), everything), version(role("a", nil)), true, false},
		{"SM-1 one that aggregates others", aggregate(role("a", nil), everything), version(aggregate(role("a", nil), match(to("a")))), true,
			false},
		{"SM-6 the rules of one that aggregates", aggregate(role("a", nil), everything),
			version(aggregate(role("a", nil, get), everything)), true, false},
		{"SM-11 something else of one that aggregates", aggregate(role("a", nil), everything),
			version(aggregate(role("a", nil), everything)), false, false},
		{"SM-1 a resync of one that aggregates", aggregate(role("a", nil), everything), aggregate(role("a", nil), everything), true, false},
		{"SM-7 the rules of one that aggregates and matches", aggregate(role("a", to("r")), everything),
			version(aggregate(role("a", to("r"), get), everything)), true, true},
		{"SM-7 the selectors of one that aggregates and matches", aggregate(role("a", to("r")), everything),
			version(aggregate(role("a", to("r")), match(to("a")))), true, true},
		{"SM-6, SM-7 the rules of one that matches and selects nothing", aggregate(role("a", to("r")), match(to("a"))),
			version(aggregate(role("a", to("r"), get), match(to("a")))), true, true},
		{"SM-6, SM-7 the rules of one that matches and selects only itself", aggregate(role("a", both), match(to("a"))),
			version(aggregate(role("a", both, get), match(to("a")))), true, true},
		{"SM-6, SM-11 the rules of one that selects nothing and does not match", aggregate(role("a", nil), match(to("a"))),
			version(aggregate(role("a", nil, get), match(to("a")))), true, false},
		{"SM-3 the rules of one that matches and has an invalid selector", aggregate(role("a", to("r")), broken),
			version(aggregate(role("a", to("r"), get), broken)), true, true},
	} {
		r := aggregate(role("r", to("s")), match(to("other")), match(to("r")))
		s := aggregate(role("s", to("r")), match(to("s"))) // selects r, which selects s
		aggregating := []*rbacv1.ClusterRole{r, s, aggregate(role("t", nil), match(to("t")))}
		keys := concerned(aggregating, c.before, c.after)
		var want []plan.Key
		if c.other {
			want = []plan.Key{{Name: "r"}, {Name: "s"}, {Name: "t"}} // SM-7
		}
		if got := itself(c.before, c.after); got != c.self || !slices.Equal(want, keys) {
			t.Errorf("%s: itself %t, others %v", c.name, got, keys)
		}
		if selects(r, r) {
			t.Error("SM-2: a role selects itself")
		}
	}
}

func TestEntry(t *testing.T) {
	c := New(Options{})
	if c.Name != "clusterrole-aggregation-controller" || c.Alias != "clusterrole-aggregation" || c.Account != c.Name || c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
