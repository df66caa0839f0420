package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// Widgets are a custom resource with the field size, of a type that users change. Each user of a cluster has widgets of its own.
const widgets = "widgets"

// expressions are those of policies, by what scripts call them.
var expressions = map[string]string{
	"right":  "object.metadata.name != ''",
	"wrong":  "object.metadata.name > 5",
	"size":   "object.size > 5", // right if it is an integer
	"params": "object.metadata.name != '' && params.data['most'] > 5",
}

func admissionPolicyEntry() Entry {
	return Entry{
		Controller: "validatingadmissionpolicy-status-controller",
		Operations: map[string]Operation{
			"policy":  policyOfUsers,  // NAME of=deployments,widgets says=right: one of the expressions; do=delete
			"widgets": widgetsOfUsers, // size=integer, string: the type of the field; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			of := func() string {
				return workload.Pick(g, "deployments", "widgets", "deployments,widgets", "configmaps,pods")
			}
			says := func() string { return workload.Pick(g, "right", "wrong", "size", "size", "params") }
			name := fmt.Sprintf("%s-%d", app, g.IntN(3))
			if g.IntN(3) > 0 {
				g.Add(at+g.Early(), "widgets size=%s", workload.Pick(g, "integer", "string"))
			}
			g.Add(at, "policy %s of=%s says=%s", name, of(), says())
			switch g.IntN(5) {
			case 0:
				g.Add(soon, "policy %s do=delete", name)
				return
			case 1:
				g.Add(soon, "widgets do=delete")
			case 2:
				g.Add(soon, "widgets size=%s", workload.Pick(g, "integer", "string"))
			}
			g.Add(soon+g.Early(), "policy %s of=%s says=%s", name, of(), says())
		}}},
		Settled: policiesSettled,
		Scenarios: []Scenario{{Name: "policies are made, and what is wrong with them is mended", Play: func(u *User) {
			u.policies(3, "wrong", 1)
			u.policies(3, "right", 0)
		}}},
		Malformed: map[string]string{
			"validatingadmissionpolicies/absurd": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
				"metadata":{"generation":3,${META}},"spec":{"paramKind":{"apiVersion":"/","kind":""},
				"matchConstraints":{"resourceRules":[{},{"apiGroups":["","*"],"apiVersions":["v1",""],"resources":["pods","/","","*"]},
				{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]},
				"variables":[{"name":"","expression":"("},{"name":"a.b","expression":"variables.x"}],
				"validations":[{"expression":""},{"expression":"object.(","messageExpression":"\u0000"}]},
				"status":{"observedGeneration":-1}}`,
		},
		Mutants: policyMutants,
		Budgets: []Budget{{
			Name: "20 policies are made and changed", Floor: floor.Writes{Status: 40},
			Do: func(u *User) {
				u.policies(20, "wrong", 1)
				u.policies(20, "right", 0)
			},
		}},
	}
}

// widgetGroup is the group of the user's widgets.
func (u *User) widgetGroup() string { return u.unique("policies") + ".example.com" }

// newPolicy returns a policy that is about nothing.
func (u *User) newPolicy(name string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}}
	u.mark(p)
	return p
}

// policyAbout has a policy say something about resources.
func (u *User) policyAbout(says string, resources ...string) func(*admissionv1.ValidatingAdmissionPolicy) {
	return func(p *admissionv1.ValidatingAdmissionPolicy) {
		p.Spec.MatchConstraints = &admissionv1.MatchResources{}
		for _, resource := range resources {
			group := map[string]string{"deployments": "apps", widgets: u.widgetGroup()}[resource]
			p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, admissionv1.NamedRuleWithOperations{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
						Resources: []string{resource}},
				},
			})
		}
		p.Spec.Validations = []admissionv1.Validation{{Expression: expressions[says]}}
		if p.Spec.ParamKind = nil; says == "params" {
			p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		}
	}
}

// policies makes policies about Deployments, or changes them, and waits until they were checked.
func (u *User) policies(n int, says string, warnings int) {
	u.Helper()
	u.Each(n, func(i int) error {
		name := fmt.Sprint("policy-", i)
		u.Try("the policy "+name+" is "+says, func() error {
			return apply(u, u.newPolicy(name), u.policyAbout(says, "deployments"))
		})
		Await(u, u.unique(name), func(p *admissionv1.ValidatingAdmissionPolicy) error {
			return unless(unchecked(p) == "" && len(p.Status.TypeChecking.ExpressionWarnings) == warnings, p.Status)
		})
		return nil
	})
}

func policyOfUsers(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*admissionv1.ValidatingAdmissionPolicy](u, u.unique(l.Arg(0)))
	}
	of, _ := l.Get("of")
	says, _ := l.Get("says")
	return apply(u, u.newPolicy(l.Arg(0)), u.policyAbout(says, strings.Split(of, ",")...))
}

// widgetsOfUsers creates the definition of widgets, changes it or deletes it.
func widgetsOfUsers(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return u.raw(http.MethodDelete, definitionPath+"/"+widgets+"."+u.widgetGroup(), "").Do(ctx()).Error()
	}
	size, _ := l.Get("size")
	return u.defineKind("Widget", u.widgetGroup(), fmt.Sprintf(`"versions":[{"name":"v1","served":true,"storage":true,"schema":{
		"openAPIV3Schema":{"type":"object","properties":{"size":{"type":%q}}}}}]`, size))
}

// unchecked says why a policy does not count as checked; empty if it does.
func unchecked(p *admissionv1.ValidatingAdmissionPolicy) string {
	switch {
	case p.Status.ObservedGeneration != p.Generation: // VAP-1
		return fmt.Sprintf("its generation is %d, and %d was checked", p.Generation, p.Status.ObservedGeneration)
	case p.Status.TypeChecking == nil: // VAP-2
		return "its status does not say that it was checked"
	}
	return ""
}

// policiesSettled says which policies were not checked, or not by the types that there are now.
func policiesSettled(s *View) (wrong []string) {
	sizes := sizesOfWidgets(s)
	for _, p := range subjects[*admissionv1.ValidatingAdmissionPolicy](s) {
		if why := unchecked(p); why != "" {
			wrong = append(wrong, fmt.Sprintf("the policy %s: %s", p.Name, why))
			continue
		}
		about := 0
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			about += strings.Count(w.Warning, ", Kind=")
		}
		if most := typesWithWarnings(p, sizes); about != most { // VAP-3 to VAP-6, VAP-20
			wrong = append(wrong, fmt.Sprintf("the policy %s has warnings about %d types, in place of %d: %+v", p.Name, about, most,
				p.Status.TypeChecking.ExpressionWarnings))
		}
	}
	return wrong
}

// typesWithWarnings returns for how many of its types a policy has warnings, given the types of sizes by group.
func typesWithWarnings(p *admissionv1.ValidatingAdmissionPolicy, sizes map[string]string) (n int) {
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		size, defined := sizes[rule.APIGroups[0]]
		if rule.Resources[0] == widgets && !defined {
			continue
		}
		switch p.Spec.Validations[0].Expression {
		case expressions["wrong"], expressions["params"]:
			n++
		case expressions["size"]:
			if size != "integer" {
				n++
			}
		}
	}
	return n
}

// sizesOfWidgets returns the type of the size of widgets by their group, as their definitions are now.
func sizesOfWidgets(s *View) map[string]string {
	sizes := map[string]string{}
	for _, c := range s.Changes(definitions) {
		var d struct {
			Spec struct {
				Group    string
				Names    struct{ Plural string }
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct {
							Properties map[string]struct{ Type string }
						}
					}
				}
			}
		}
		if text, err := json.Marshal(c.Object); err != nil || json.Unmarshal(text, &d) != nil || d.Spec.Names.Plural != widgets {
			continue
		}
		if delete(sizes, d.Spec.Group); !c.Deleted && len(d.Spec.Versions) > 0 {
			sizes[d.Spec.Group] = d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"].Type
		}
	}
	return sizes
}

const policyFolder = "pkg/controllers/validatingadmissionpolicystatus/"

var policyMutants = []Mutant{
	{
		Name: "a policy that changes is not checked again",
		Edits: []Edit{{policyFolder + "plan.go", "custom || p.Generation > p.Status.ObservedGeneration",
			"custom || p.Generation < p.Status.ObservedGeneration"}},
		Script: withoutElection + `
			at 5s   policy web of=deployments says=right
			at 20s  policy web of=deployments says=wrong`,
		Oracle: SettledOracle,
	},
	{
		Name:   "a policy without warnings does not count as checked",
		Edits:  []Edit{{policyFolder + "report.go", "if !d.Checked || p.Status", "if len(d.Warnings) == 0 || p.Status"}},
		Script: withoutElection + "\n\t\t\tat 5s   policy web of=deployments says=right",
		Oracle: SettledOracle,
	},
	{
		Name:  "policies about a type are not checked when its definition changes",
		Edits: []Edit{{policyFolder + "term.go", "range f.policies.By(group) {", "range f.policies.By(group)[:0] {"}},
		Script: withoutElection + `
			at 5s   policy web of=widgets says=size
			at 30s  widgets size=string`,
		Oracle: SettledOracle,
	},
	{
		Name:  "policies are checked before the types of a definition are published, and never again",
		Edits: []Edit{{policyFolder + "plan.go", "if s.Changed {", "if s.Changed && len(s.Types) > mostParts {"}},
		Script: withoutElection + `
			at 5s   widgets size=integer
			at 20s  policy web of=widgets says=size
			at 40s  widgets size=string`,
		Oracle: SettledOracle,
	},
	{
		Name:   "a policy is checked for one of its types",
		Edits:  []Edit{{policyFolder + "observe.go", "s.Types = append(s.Types, *t)", "s.Types = append(s.Types[:0], *t)"}},
		Script: withoutElection + "\n\t\t\tat 5s   policy web of=deployments,pods says=wrong",
		Oracle: SettledOracle,
	},
	{
		Name:   "the parameters of a policy have no type",
		Edits:  []Edit{{policyFolder + "observe.go", "return version, p.Spec.ParamKind.Kind, err == nil", "return version, p.Spec.ParamKind.Kind, err != nil"}},
		Script: withoutElection + "\n\t\t\tat 5s   policy web of=deployments says=params",
		Oracle: SettledOracle,
	},
}
