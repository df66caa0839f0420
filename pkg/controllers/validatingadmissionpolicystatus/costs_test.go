package validatingadmissionpolicystatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
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
	if want := mostUnknown + 1; costs.Exceeds(took, time.Second) || len(s.Unknown) != want || s.Unknown[mostUnknown] != "others" {
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
	if took := costs.CPU(func() { look(t, p) }); costs.Exceeds(took, 2*time.Second) {
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

// chain returns a policy with variables of which each is made of the one before.
func chain(n int, of string) *policy {
	p := newPolicy(let("v0", "1"))
	for i := range n {
		let(fmt.Sprint("v", i+1), strings.ReplaceAll(of, "v", fmt.Sprint("variables.v", i)))(p)
	}
	says(fmt.Sprint("[variables.v", n, "] == variables.v0"))(p)
	return p
}

// nestedMaps is an expression with so many maps, of which each has the one around it as a key and as a value.
func nestedMaps(n int) string {
	text := "true"
	for i := n; i > 0; i-- {
		text = fmt.Sprintf("[{a%d: a%d}].all(a%d, %s)", i-1, i-1, i, text)
	}
	return "[1].all(a0, " + text + ")"
}

// Whatever the expressions of a policy are, they are checked in some seconds, or the policy is not checked.
func TestCostsOfExpressions(t *testing.T) { // VAP-3, VAP-5
	list := func(of string, size int) string {
		return "[" + strings.Repeat(of+", ", size/(len(of)+2)) + "1].size() > 0"
	}
	for name, row := range map[string]struct {
		policy *policy
		why    string
	}{
		"maps whose keys are maps":            {newPolicy(says(nestedMaps(17))), "17 maps whose keys are no constants"},
		"some of them, in a long expression":  {newPolicy(says(nestedMaps(10) + "||" + list("1", 20_000))), "too long"},
		"variables whose keys are maps":       {chain(10, "{v: v}"), ""},
		"more of them":                        {chain(11, "{v: v}"), "11 maps whose keys are no constants"},
		"lists in lists":                      {chain(400, "[v]"), ""},
		"types that are found out one by one": {newPolicy(says(list("[] + [[]]", 50_000))), "too long"},
		"many short ones":                     {newPolicy(says(names("object.spec.x", 2000)...)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := look(t, row.policy)
			var d decision
			var p plan.Plan
			took := costs.CPU(func() { d, p = planCheck(epoch, s) })
			if refused := strings.Contains(p.Why, "not checked"); costs.Exceeds(took, 3*time.Second) || !d.Checked || refused != (row.why != "") ||
				!strings.Contains(p.Why, row.why) || refused && d.Warnings != nil {
				t.Errorf("%s: %s", took, p.Why)
			}
		})
	}
}

// Maps with constants as keys, and few other ones, are checked as ever.
func TestMapsThatAreChecked(t *testing.T) { // VAP-5
	p := newPolicy(says(strings.Repeat("{'a': {1: object.spec.replicas}}['a'][1] > 0 && ", 20)+"{object.metadata.name: 1}.x > 'a'",
		"{object.metadata.name: {object.metadata.name: 1}}['a']['b'] > 'a'"))
	want := []string{"spec.validations[0].expression", "spec.validations[1].expression"}
	got := warningsOf(t, p)
	if len(got) != 2 || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) || !strings.Contains(got[1], "(int, string)") {
		t.Error(got)
	}
}

// A policy that is too long for all of its types is checked for some of them.
func TestCostsOfTypes(t *testing.T) { // VAP-4
	p := newPolicy(about("/v1/configmaps", "/v1/pods", "apps/v1/deployments", "example.com/v1/widgets"), says("object.none"))
	for range 11 {
		says(strings.Repeat("true && ", 700) + "true")(p)
	}
	s := look(t, p)
	d, why := planCheck(epoch, s)
	if len(d.Warnings) != 1 || strings.Count(d.Warnings[0].Warning, "Kind=") != 2 ||
		!strings.Contains(why.Why, "for 2 types") || !strings.Contains(why.Why, "too long to be checked for 2 others") {
		t.Errorf("%+v: %s", d.Warnings, why.Why)
	}
}

// What the compiler says is cut off so that a status has room for it. All expressions with warnings are named.
func TestLengthOfWarnings(t *testing.T) { // VAP-2, VAP-6
	p := newPolicy(about("apps/v1/deployments", "/v1/pods"), says("object.none"))
	for range 100 {
		says("object.spec.x == '" + strings.Repeat("ä", 400) + "'" + strings.Repeat(" && object.spec.y == 1", 5))(p)
	}
	d, _ := planCheck(epoch, look(t, p))
	sum := 0
	for i, w := range d.Warnings {
		sum += len(w.Warning)
		if i == 1 && !strings.Contains(w.Warning, "undefined field 'x'") || !strings.HasSuffix(w.Warning, andMore+"\n") ||
			!utf8.ValidString(w.Warning) {
			t.Fatalf("%d: %q", i, w.Warning)
		}
	}
	if len(d.Warnings) != 101 || sum > 300<<10 || sum < 200<<10 {
		t.Errorf("%d warnings, %d bytes", len(d.Warnings), sum)
	}
}
