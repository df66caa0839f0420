package validatingadmissionpolicystatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// What the compiler says of one expression of a policy about Deployments.
func TestExpressions(t *testing.T) { // VAP-3, VAP-5, VAP-6
	for text, want := range map[string]string{
		"object.spec.replicas > 1":                                              "",
		"object.spec.replicas > '1'":                                            "1:22: found no matching overload for '_>_' applied to '(int, string)'",
		"object.spec.replica > 1":                                               "1:12: undefined field 'replica'",
		"object.spec > 1":                                                       "1:13: found no matching overload for '_>_' applied to '(apps.v1.Deployment.spec, int)'",
		"oldObject.spec.replica == 1":                                           "1:15: undefined field 'replica'",
		"oldObject == null || oldObject.spec.paused":                            "",
		"object.spec.paused > 1":                                                "1:20: found no matching overload for '_>_' applied to '(bool, int)'",
		"object.spec.weight > 0.5":                                              "",
		"object.spec.timeout > duration('1h')":                                  "",
		"object.metadata.name.startsWith('a')":                                  "",
		"object.metadata.labels['a'] == 'b'":                                    "",
		"object.metadata.labels['a'] > 5":                                       "1:29: found no matching overload for '_>_' applied to '(string, int)'",
		"object.metadata.creationTimestamp < now":                               "1:37: undeclared reference to 'now' (in container '')",
		"object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')": "",
		"object.spec.containers.all(c, c.name != '')":                           "",
		"object.spec.containers.all(c, c.image != '')":                          "1:32: undefined field 'image'",
		"object.spec.containers[0].name > 5":                                    "1:32: found no matching overload for '_>_' applied to '(string, int)'",
		// what is of several types, and what contains itself, may be anything (VAP-21)
		"object.spec.surge == '25%' || object.spec.surge < 3":                                "",
		"object.spec.containers.all(c, quantity(c.limits['cpu']).isLessThan(quantity('1')))": "",
		"object.spec.containers[0].more.more.name.x == 5":                                    "",
		"request.operation == 'CREATE' && request.userInfo.groups.exists(g, g == 'a')":       "",
		"request.operation == 5":                      "1:19: found no matching overload for '_==_' applied to '(string, int)'",
		"request.who == 'a'":                          "1:8: undefined field 'who'",
		"namespaceObject.metadata.labels['a'] == 'b'": "",
		"namespaceObject.metadata.owner == 'b'":       "1:25: undefined field 'owner'",
		"authorizer.group('apps').resource('deployments').check('create').allowed()": "",
		"authorizer.requestResource.check('create').allowed()":                       "",
		"authorizer.user == 'a'":                                    "1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
		"params.data['a'] == 'b'":                                   "1:1: undeclared reference to 'params' (in container '')",
		"object.spec.replicas >":                                    "1:23: Syntax error: mismatched input '<EOF>'",
		"has(object.spec.replicas) ? object.spec.replicas : 'none'": "1:27: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
		"object.spec.replicas":                                      "", // that it is no bool is not looked for
	} {
		t.Run(text, func(t *testing.T) {
			got := warningsOf(t, newPolicy(says(text)))
			if want == "" {
				if got != nil {
					t.Error(got)
				}
				return
			}
			want := "spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:" + want
			if len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%q, in place of %q", got, want)
			}
		})
	}
}

// What the compiler says of policies.
func TestWarnings(t *testing.T) {
	const overload, deployment = "found no matching overload for '_>_' applied to '(string, int)'", "apps/v1, Kind=Deployment: ERROR: <input>:"
	for name, row := range map[string]struct {
		policy []edit
		want   []string
	}{
		"a policy that says nothing": {},
		"each expression has its place, and so has the message": { // VAP-3
			policy: []edit{says("object.x == 1", "true"), explains("object.metadata.name"), explains("object.y")},
			want: []string{"spec.validations[0].expression: " + deployment + "1:7: undefined field 'x'",
				"spec.validations[3].messageExpression: " + deployment + "1:7: undefined field 'y'"},
		},
		"a variable has the type of its expression": { // VAP-5
			policy: []edit{let("n", "object.spec.replicas"), let("twice", "variables.n * 2"), says("variables.twice > 'a'", "variables.other == 1")},
			want: []string{
				"spec.validations[0].expression: " + deployment + "1:17: found no matching overload for '_>_' applied to '(int, string)'",
				"spec.validations[1].expression: " + deployment + "1:10: undefined field 'other'",
			},
		},
		"mistakes in variables are not reported, and these may be anything": { // VAP-3
			policy: []edit{let("n", "object.none"), says("variables.n > 'a' && variables.n > 5")},
		},
		"conditions and annotations are not checked": { // VAP-3
			policy: []edit{func(p *policy) {
				p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "object.none"}}
				p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "a", ValueExpression: "object.none"}}
			}},
		},
		"parameters have the type of their kind": { // VAP-5
			policy: []edit{params("v1", "ConfigMap"), says("params.data['a'] > 5", "params.data['a'] == 'b'", "params.binaryData['a'] == b'x'")},
			want:   []string{"spec.validations[0].expression: " + deployment + "1:18: " + overload},
		},
		"parameters of a kind that nobody knows may be anything": { // VAP-5
			policy: []edit{params("example.com/v1", "Limit"), says("params.most > 5 && params.most > 'a'")},
		},
		"an object may be its own parameter": {
			policy: []edit{params("apps/v1", "Deployment"), says("params.spec.replicas > object.spec.replicas", "params.none")},
			want:   []string{"spec.validations[1].expression: " + deployment + "1:7: undefined field 'none'"},
		},
		"a kind that nobody knows has no warnings": { // VAP-5
			policy: []edit{about("example.com/v2/widgets", "apps/v1/gadgets", "/v2/pods"), says("object.none")},
		},
		"a custom resource": { // VAP-5
			policy: []edit{about("example.com/v1/widgets"), says("object.size > 'a'", "object.self__dash__made == 'a'", "object.none.x == 1")},
			want: []string{
				"spec.validations[0].expression: example.com/v1, Kind=Widget: ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(int, string)'",
				"spec.validations[2].expression: example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'x'",
			},
		},
		"what a schema leaves open may be anything": { // VAP-21
			policy: []edit{about("example.com/v1/widgets"), says("object.any.thing == 1", "object.template.spec.x == 1", "object.free['a'].b == 1",
				"object.odd == 1 || object.odd == 'a'", "object.bare[0].x == 1")},
		},
		"an object within another one may be anything": { // VAP-21
			policy: []edit{about("apps/v1/controllerrevisions"), says("object.data.spec.template == 5")},
		},
		"a field with the name of a keyword": {
			policy: []edit{about("/v1/pods"), says("object.spec.namespace == 'a'", "object.spec.__namespace__ == 'a'")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, warningsOf(t, newPolicy(row.policy...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A warning has a part for each type, in order, as the compiler writes it.
func TestWarningsOfSeveralTypes(t *testing.T) { // VAP-6
	d, _ := planCheck(epoch, look(t, newPolicy(about("example.com/v1/widgets", "apps/v1/deployments", "/v1/pods"),
		says("object.spec.priority > 1"))))
	want := []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
		Warning: "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'priority'\n" +
			" | object.spec.priority > 1\n | ...........^\n\n" +
			"example.com/v1, Kind=Widget: ERROR: <input>:1:7: undefined field 'spec'\n | object.spec.priority > 1\n | ......^\n"}}
	if diff := cmp.Diff(want, d.Warnings); diff != "" {
		t.Error(diff)
	}
}

// Which types a policy is checked for.
func TestTypes(t *testing.T) { // VAP-4
	in := func(resources ...string) admissionv1.Rule {
		return admissionv1.Rule{APIGroups: []string{"", "apps"}, APIVersions: []string{"v1"}, Resources: resources}
	}
	for name, row := range map[string]struct {
		rules   []admissionv1.Rule
		want    []string
		unknown []string
	}{
		"no rules": {},
		"all resources of a rule, in order": {
			rules:   []admissionv1.Rule{in("pods", "deployments")},
			want:    []string{"/v1, Kind=Pod", "apps/v1, Kind=Deployment"},
			unknown: []string{"deployments of v1", "pods.apps of apps/v1"},
		},
		"a kind is checked once": {
			rules: []admissionv1.Rule{in("reviews"), in("reviews")}, want: []string{"apps/v1, Kind=Review"},
			unknown: []string{"reviews of v1", "reviews of v1"},
		},
		"wildcards of resources and subresources are left out": {
			rules: []admissionv1.Rule{in("*", "pods/status", "*/scale", "configmaps")},
			want:  []string{"/v1, Kind=ConfigMap"}, unknown: []string{"configmaps.apps of apps/v1"},
		},
		"a rule for all groups is left out": {rules: []admissionv1.Rule{{APIGroups: []string{"apps", "*"}, APIVersions: []string{"v1"},
			Resources: []string{"deployments"}}}},
		"a rule for all versions is left out": {rules: []admissionv1.Rule{{APIGroups: []string{"apps"}, APIVersions: []string{"*"},
			Resources: []string{"deployments"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := look(t, newPolicy(about(), rules(row.rules...)))
			if diff := cmp.Diff(row.want, kinds(s.Types)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(row.unknown, s.Unknown); diff != "" {
				t.Error(diff)
			}
		})
	}
	if s := look(t, newPolicy(func(p *policy) { p.Spec.MatchConstraints = nil })); len(s.Types) > 0 {
		t.Error(kinds(s.Types))
	}
}

// When a policy is checked.
func TestDue(t *testing.T) { // VAP-1, VAP-20
	custom := about("example.com/v1/widgets")
	for name, row := range map[string]struct {
		policy *policy
		want   bool
	}{
		"it is new":                           {newPolicy(), true},
		"it was checked":                      {newPolicy(wasChecked()), false},
		"it has changed since":                {newPolicy(wasChecked(), hasChanged), true},
		"its status does not say so":          {newPolicy(wasChecked(), func(p *policy) { p.Status.TypeChecking = nil }), true},
		"its types may have changed since":    {newPolicy(wasChecked(), custom), true},
		"those of its parameters may have":    {newPolicy(wasChecked(), params("example.com/v1", "Limit")), true},
		"its parameters are no group version": {newPolicy(wasChecked(), params("a/b/c", "Limit")), false},
	} {
		t.Run(name, func(t *testing.T) {
			d, p := planCheck(epoch, look(t, row.policy))
			if d.Checked != row.want || !p.Empty() {
				t.Errorf("%s: %+v", p.Why, d)
			}
		})
	}
}

// People are told what nobody knows, and that it is looked at again.
func TestWhy(t *testing.T) {
	s := look(t, newPolicy(about("apps/v1/deployments", "example.com/v2/widgets"), params("example.com/v1", "Limit"), says("object.x")))
	s.Changed = true
	_, p := planCheck(epoch, s)
	want := "the policy was checked for 1 types: 1 of its expressions have warnings; the API server has published no type for " +
		"widgets.example.com of example.com/v2, the parameters example.com/v1, Kind=Limit; it is checked again soon, because a definition " +
		"has changed"
	if p.Why != want || p.Requeue <= settles {
		t.Errorf("%s, %s", p.Why, p.Requeue)
	}
}

// Of a type, no more is kept than it consists of.
func TestReachable(t *testing.T) {
	s := look(t, newPolicy())
	var names []string
	for name := range s.Types[0].Definitions {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"IntOrString", "Meta", "Quantity", "apps.Container", "apps.Deployment", "apps.Spec"}
	if diff := cmp.Diff(want, names); diff != "" || s.Types[0].Kind != kind("apps", "v1", "Deployment") || s.Types[0].Root != "apps.Deployment" {
		t.Errorf("%+v: %s", s.Types[0], diff)
	}
}

// A document in which definitions refer to others again and again costs no more than a large type.
func TestTypesAreBounded(t *testing.T) {
	defs := map[string]definition{}
	for i := range 40 {
		next := fields{Ref: refPrefix + string(rune('A'+i+1))}
		defs[string(rune('A'+i))] = definition{fields: fields{Type: "object", Properties: map[string]fields{"a": next, "b": next}}}
	}
	defs["A"].Properties["z"] = fields{Type: "string"}
	o := objectType{Kind: kind("", "v1", "A"), Root: "A", Definitions: defs}
	if d := o.declaration(); d.Fields["a"] == nil {
		t.Errorf("%+v", d)
	}
}
