package validatingadmissionpolicystatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
)

// names returns so many names.
func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// A rule that names many groups, versions and resources costs what it says, not what that multiplies to.
func TestCostsOfRules(t *testing.T) { // VAP-4
	p := newPolicy(about(), rules(admissionv1.Rule{APIGroups: names("g", 2000), APIVersions: names("v", 200), Resources: names("r", 200)}))
	var s snapshot
	took := costs.CPU(func() { s = look(t, p) })
	if want := mostUnknown + 1; took > time.Second || len(s.Unknown) != want || s.Unknown[mostUnknown] != "others" {
		t.Errorf("%s, %d names: %v", took, len(s.Unknown), s.Unknown)
	}
	if groups := customGroups(p); len(groups) != 2000 {
		t.Errorf("%d groups", len(groups))
	}
}

// Very many rules, each of which may try many names, cost no more than some of them.
func TestCostsOfManyRules(t *testing.T) { // VAP-4
	p := newPolicy(about())
	for range 5000 {
		rules(admissionv1.Rule{APIGroups: names("g", 10), APIVersions: names("v", 10), Resources: names("r", 10)})(p)
	}
	if took := costs.CPU(func() { look(t, p) }); took > 2*time.Second {
		t.Error(took)
	}
}

// What is found beyond many names is not looked for, but what is found among them counts.
func TestNamesThatAreTried(t *testing.T) { // VAP-4
	in := func(unknown int) admissionv1.Rule {
		return admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: append(names("a", unknown), "deployments")}
	}
	for unknown, want := range map[int][]string{mostNames - 1: {"apps/v1, Kind=Deployment"}, mostNames: nil} {
		if diff := cmp.Diff(want, kinds(look(t, newPolicy(about(), rules(in(unknown)))).Types)); diff != "" {
			t.Errorf("%d names before: %s", unknown, diff)
		}
	}
}

// The groups of a policy are those of rules that name something, each once.
func TestCustomGroups(t *testing.T) { // VAP-20
	rule := func(groups, versions, resources string) admissionv1.Rule {
		of := func(text string) []string { return strings.Fields(text) }
		return admissionv1.Rule{APIGroups: of(groups), APIVersions: of(versions), Resources: of(resources)}
	}
	p := newPolicy(about(), rules(rule("b.example a.example apps", "v1", "x"), rule("b.example", "v2", "y"), rule("c.example", "*", "x"),
		rule("d.example *", "v1", "x"), rule("e.example", "v1", "x/status *"), rule("f.example", "", "x")), params("g.example/v1", "Limit"))
	got := customGroups(p)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a.example", "b.example", "g.example"}, got); diff != "" {
		t.Error(diff)
	}
}

// nested is a type with long names: so many fields that are objects with so many fields each.
func nested(long, outer, inner int) objectType {
	some := func(n int, of fields) definition {
		d := definition{fields: fields{Type: "object", Properties: map[string]fields{}}}
		for i := range n {
			d.Properties[fmt.Sprint("f", i, strings.Repeat("n", long))] = of
		}
		return d
	}
	return objectType{Kind: kind("", "v1", "Root"), Root: "root", Definitions: map[string]definition{
		"root": some(outer, fields{Ref: refPrefix + "child"}), "child": some(inner, fields{Ref: refPrefix + "grandchild"}),
		"grandchild": some(1, fields{Type: "string"})}}
}

// The names of nested types, which have those of all types around them, are part of what a type may cost.
func TestCostsOfNames(t *testing.T) {
	for _, long := range []int{1000, 3000, 50_000} {
		o := nested(long, 40, 500)
		var d *apiservercel.DeclType
		if grown := costs.Heap(func() { d = o.declaration() }); grown > 20<<20 {
			t.Errorf("names of %d bytes: a type of %d bytes", long, grown)
		}
		if len(d.Fields) != 40 {
			t.Errorf("%d fields", len(d.Fields))
		}
	}
	o := nested(60, 40, 300)
	for _, field := range o.declaration().Fields {
		for _, inner := range field.Type.Fields {
			if inner.Type.TypeName() == "dyn" {
				t.Fatalf("%s is of any type", inner.Name)
			}
		}
	}
}

// What becomes of a type that is too large does not depend on chance.
func TestTypesAreAlwaysTheSame(t *testing.T) {
	names := func() (all []string) {
		o := nested(3000, 40, 500)
		for name, field := range o.declaration().Fields {
			all = append(all, fmt.Sprint(name[:4], " ", len(field.Type.Fields)))
		}
		slices.Sort(all)
		return all
	}
	first := names()
	for range 5 {
		if diff := cmp.Diff(first, names()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// Of two definitions that claim to be of one kind, it is always the same that counts.
func TestDefinitionsOfOneKind(t *testing.T) {
	d := document{}
	d.Components.Schemas = map[string]definition{}
	of := kind("example.com", "v1", "Widget")
	for _, name := range names("d", 20) {
		d.Components.Schemas[name] = definition{Kinds: []metav1.GroupVersionKind{metav1.GroupVersionKind(of)}}
	}
	for range 20 {
		if found := d.typeOf(of.GroupVersion(), origin{Kind: of.Kind}); found.Root != "d0" {
			t.Fatal(found.Root)
		}
	}
}
