package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// aggregateTo begins the labels by which ClusterRoles are selected (SM-8).
const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

func clusterRoleAggregationEntry() Entry {
	return Entry{
		Controller: "clusterrole-aggregation-controller",
		Operations: map[string]Operation{
			"role": clusterRole, // NAME to= rules= aggregate= as words with plus signs between them, -: none; aggregate=all; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
			names := []string{"admin", "edit", "view"}
			for i, name := range names { // a chain
				g.Add(time.Second, "role %s aggregate=%s to=%s", name, name, append(names, "-")[(i+3)%4])
			}
			extra := fmt.Sprintf("extra-%d", g.IntN(4))
			g.Add(at, "role %s to=%s rules=%s", extra, workload.Pick(g, "view", "edit", "view+admin", "other", "-"),
				workload.Pick(g, "pods", "nodes", "pods+nodes", "-"))
			switch g.IntN(7) {
			case 6: // it selects nothing, and has rules
				g.Add(soon, "role odd aggregate=odd to=%s rules=%s", workload.Pick(g, "view", "edit", "-"),
					workload.Pick(g, "secrets", "-"))
			case 0:
				g.Add(soon, "role %s do=delete", extra)
			case 1:
				g.Add(soon, "role %s to=%s", extra, workload.Pick(g, "edit", "view", "-"))
			case 2:
				g.Add(soon, "role %s rules=%s", workload.Pick(g, names...), workload.Pick(g, "secrets", "pods", "-"))
			case 3:
				g.Add(soon, "role %s aggregate=%s", workload.Pick(g, names...), workload.Pick(g, "view+edit", "all", "-"))
			case 4: // a cycle
				g.Add(soon, "role admin to=view")
			case 5:
				g.Add(soon, "role %s rules=%s", extra, workload.Pick(g, "jobs", "pods+jobs", "-"))
			}
		}}},
		Settled: clusterRolesSettled,
		Scenarios: []Scenario{{Name: "a chain of ClusterRoles", Play: func(u *User) {
			u.roleChain()
			u.addToChain("pods")
			u.addToChain("nodes")
			u.waitChain("nodes", "pods")
			u.role("pods to=-")
			u.waitChain("nodes")
			u.role("edit rules=-")
			u.waitChain("nodes")
			u.role("nodes rules=-")
			u.waitChain()
		}}},
		Malformed: map[string]string{
			"clusterroles/absurd-role": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"labels":{"":"",
				"rbac.authorization.k8s.io/aggregate-to-view":"true"},${META}},"rules":[{"verbs":null},{"verbs":["get"]}],
				"aggregationRule":{"clusterRoleSelectors":[{},{"matchExpressions":[{"key":"","operator":"Perhaps"}]}]}}`,
		},
		Mutants: clusterRoleMutants,
		Budgets: []Budget{{
			Name: "10 ClusterRoles are added to a chain of three", Floor: floor.Writes{Other: 30},
			Prepare: (*User).roleChain,
			Do: func(u *User) {
				var all []string
				for i := range 10 {
					all = append(all, fmt.Sprintf("kind-%d", i))
					u.addToChain(all[i])
					u.waitChain(all...)
				}
			},
		}},
	}
}

// rulesOf returns a rule for each word.
func rulesOf(words string) (rules []rbacv1.PolicyRule) {
	for _, word := range wordsOf(words) {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{word}, Verbs: []string{"get"}})
	}
	return rules
}

func wordsOf(words string) []string {
	if words == "-" || words == "" {
		return nil
	}
	return strings.Split(words, "+")
}

// clusterRole creates, changes or deletes a ClusterRole.
func clusterRole(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*rbacv1.ClusterRole](u, name)
	}
	return apply(u, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(r *rbacv1.ClusterRole) {
		if words, ok := l.Get("to"); ok {
			r.Labels = map[string]string{}
			for _, word := range wordsOf(words) {
				r.Labels[u.aggregateTo(word)] = "true"
			}
		}
		if words, ok := l.Get("rules"); ok {
			r.Rules = rulesOf(words)
		}
		if words, ok := l.Get("aggregate"); ok {
			r.AggregationRule = u.aggregation(wordsOf(words))
		}
		u.mark(r)
	})
}

// aggregateTo is the label of ClusterRoles that one of that name aggregates.
func (u *User) aggregateTo(name string) string { return aggregateTo + u.unique(name) }

// aggregation selects the ClusterRoles that are for roles of those names, or all.
func (u *User) aggregation(names []string) (rule *rbacv1.AggregationRule) {
	for _, name := range names {
		selector := metav1.LabelSelector{}
		if name != "all" {
			selector.MatchLabels = map[string]string{u.aggregateTo(name): "true"}
		}
		if rule == nil {
			rule = &rbacv1.AggregationRule{}
		}
		rule.ClusterRoleSelectors = append(rule.ClusterRoleSelectors, selector)
	}
	return rule
}

// clusterRolesSettled checks that ClusterRoles have the rules that they aggregate, each once (SM-2), or if there are none, no rules but
// those of others (SM-6), that nothing else of them was written, and that it was written under the right name (SM-5).
func clusterRolesSettled(s *View) (wrong []string) {
	roles := subjects[*rbacv1.ClusterRole](s)
	wanted := wantedRules(roles)
	for _, r := range roles {
		if r.AggregationRule == nil {
			continue
		}
		got := textsOf(r.Rules)
		want := slices.Compact(wanted[r.Name])
		if len(want) == 0 && !managesRules(r) {
			continue
		}
		if !slices.Equal(got, want) {
			wrong = append(wrong, fmt.Sprintf("the ClusterRole %s has the rules %v, not %v", r.Name, got, want))
		}
	}
	for _, e := range s.writes("clusterroles") {
		before, ok := e.Before.(*rbacv1.ClusterRole)
		if !ok || e.Deleted {
			wrong = append(wrong, fmt.Sprintf("the manager has created or deleted the ClusterRole %s", e.Object.GetName()))
			continue
		}
		a, b := before.DeepCopy(), e.Object.(*rbacv1.ClusterRole).DeepCopy()
		switch owned := managesRules(b); {
		case len(b.Rules) > 0 && !owned:
			wrong = append(wrong, fmt.Sprintf("nobody owns the rules of %s as the controller should", b.Name))
		case len(b.Rules) == 0 && owned:
			wrong = append(wrong, fmt.Sprintf("the manager still owns the rules of %s, which has none", b.Name))
		}
		if len(b.Rules) == 0 && len(a.Rules) > 0 && !managesRules(a) {
			wrong = append(wrong, fmt.Sprintf("the manager has removed rules of %s that others have written", b.Name))
		}
		for _, r := range []*rbacv1.ClusterRole{a, b} {
			r.Rules, r.ResourceVersion, r.ManagedFields, r.Generation = nil, "", nil, 0
		}
		if diff := cmp.Diff(a, b, cmpopts.EquateEmpty()); diff != "" {
			wrong = append(wrong, fmt.Sprintf("the manager has changed more of %s than the rules: %s", b.Name, diff))
		}
	}
	return wrong
}

// managesRules reports whether the controller owns the rules of a ClusterRole by apply.
func managesRules(r *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(r.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "clusterrole-aggregation-controller" && f.Operation == metav1.ManagedFieldsOperationApply &&
			f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:rules"`)
	})
}

// wantedRules returns the texts of the rules that ClusterRoles aggregate, sorted: those of all roles that they select directly, or by way
// of others. A role that selects no other one passes on the rules that it has (SM-6).
func wantedRules(all []*rbacv1.ClusterRole) map[string][]string {
	wanted := map[string][]string{}
	for changed := true; changed; {
		changed = false
		for _, r := range all {
			if r.AggregationRule == nil {
				continue
			}
			var rules []string
			for _, other := range all {
				switch {
				case other.Name == r.Name || !aggregates(r, other):
				case other.AggregationRule != nil && slices.ContainsFunc(all, func(third *rbacv1.ClusterRole) bool {
					return third.Name != other.Name && aggregates(other, third)
				}):
					rules = append(rules, wanted[other.Name]...)
				default:
					rules = append(rules, textsOf(other.Rules)...)
				}
			}
			slices.Sort(rules)
			if rules = slices.Compact(rules); !slices.Equal(rules, wanted[r.Name]) {
				wanted[r.Name], changed = rules, true
			}
		}
	}
	return wanted
}

func aggregates(r, other *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(other.Labels))
	})
}

// textsOf returns the texts of rules, sorted.
func textsOf(rules []rbacv1.PolicyRule) []string {
	texts := make([]string, len(rules))
	for i, rule := range rules {
		texts[i] = rule.String()
	}
	slices.Sort(texts)
	return texts
}

const aggregationFolder = "pkg/controllers/clusterroleaggregation/"

// chainOfRoles is the beginning of scripts with a role that aggregates another one, which aggregates a third one.
const chainOfRoles = withoutElection + `
			at 1s   role extra to=view rules=pods
			at 2s   role view aggregate=view to=edit
			at 3s   role edit aggregate=edit`

var clusterRoleMutants = []Mutant{
	{
		Name: "rules of a ClusterRole stay that no other one has any more",
		Edits: []Edit{{aggregationFolder + "plan.go", "	if len(a) != len(b) {\n		return false",
			"	if len(a) != len(b) {\n		return len(a) > len(b)"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role extra rules=pods+nodes\n\t\t\tat 20s  role extra rules=nodes",
		Oracle: SettledOracle,
	},
	{
		Name:   "the controller owns the rules of a ClusterRole that has none any more",
		Edits:  []Edit{{aggregationFolder + "plan.go", "if len(rules) == 0 {", "if rules == nil {"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role extra rules=-",
		Oracle: SettledOracle,
	},
	{
		Name: "rules go that others have written to a ClusterRole that selects nothing",
		Edits: []Edit{
			{aggregationFolder + "plan.go", "if len(wanted) == 0 && !s.OwnsRules {", "if len(wanted) < 0 {"},
			{aggregationFolder + "plan.go", "if len(rules) == 0 {", "if rules == nil {"},
		},
		Script: withoutElection + "\n\t\t\tat 1s   role view aggregate=view rules=secrets",
		Oracle: SettledOracle,
	},
	{
		Name: "the rules of a ClusterRole that selects nothing any more go, and stay where it is aggregated",
		Edits: []Edit{{aggregationFolder + "enqueue.go", "!equality.Semantic.DeepEqual(before.Rules, after.Rules)\n	if",
			"!equality.Semantic.DeepEqual(before.Rules, after.Rules) && after.AggregationRule == nil\n	if"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role extra do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "rules that others have written to a ClusterRole that selects nothing are not aggregated",
		Edits: []Edit{{aggregationFolder + "plan.go", "			found = append(found, one)\n		}\n	}\n	roles, err",
			"			if one.AggregationRule == nil {\n				found = append(found, one)\n			}\n		}\n	}\n	roles, err"}},
		Script: withoutElection + "\n\t\t\tat 1s   role view aggregate=view rules=secrets to=edit\n\t\t\tat 3s   role edit aggregate=edit",
		Oracle: SettledOracle,
	},
	{
		Name: "rules do not reach the end of a chain of ClusterRoles",
		Edits: []Edit{
			{aggregationFolder + "enqueue.go", "		keys = append(keys, plan.KeyOf(role))",
				"		if selects(role, before) || selects(role, after) {\n			keys = append(keys, plan.KeyOf(role))\n		}"},
			{aggregationFolder + "enqueue.go", "!equality.Semantic.DeepEqual(before.Rules, after.Rules)\n	if",
				"!equality.Semantic.DeepEqual(before.Rules, after.Rules) && after.AggregationRule == nil\n	if"},
		},
		Script: chainOfRoles + "\n\t\t\tat 10s  role extra rules=pods+nodes",
		Oracle: SettledOracle,
	},
	{
		Name: "rules stay of a ClusterRole that is no longer selected",
		Edits: []Edit{{aggregationFolder + "enqueue.go", "return was != is || is && contributes",
			"return !was && is || is && contributes"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role extra to=-",
		Oracle: SettledOracle,
	},
	{
		Name:   "a rule that many ClusterRoles have is aggregated many times",
		Edits:  []Edit{{aggregationFolder + "plan.go", "!known[text] && grants(rule)", "(!known[text] || known[text]) && grants(rule)"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role more to=view rules=pods",
		Oracle: SettledOracle,
	},
	{
		Name: "rules in a cycle of ClusterRoles come from nowhere",
		Edits: []Edit{{aggregationFolder + "plan.go", "				visit(others)\n				continue\n",
			"				visit(others)\n"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role edit to=view\n\t\t\tat 20s  role extra rules=nodes",
		Oracle: SettledOracle,
	},
	{
		Name:   "rules are applied under another name",
		Edits:  []Edit{{aggregationFolder + "plan.go", "FieldManager: fieldManager,", "FieldManager: \"controller-manager\","}},
		Script: chainOfRoles,
		Oracle: SettledOracle,
	},
	{
		Name:   "rules that a user has written cannot be taken over",
		Edits:  []Edit{{aggregationFolder + "plan.go", "Force: true}", "Force: false}"}},
		Script: chainOfRoles + "\n\t\t\tat 10s  role edit rules=secrets",
		Oracle: SettledOracle,
	},
}

// role makes a ClusterRole of a scenario, or changes it, as a line of a script would.
func (u *User) role(words string) {
	u.Helper()
	l := script.Line{Words: strings.Fields("role " + words)}
	u.Try(l.String(), func() error { return clusterRole(u, l) })
}

var chain = []string{"view", "edit", "admin"}

// roleChain makes three ClusterRoles, of which each but the first aggregates the one before. They are there until the end of the test, and
// those go first that aggregate others, so that a manager has nothing to write.
func (u *User) roleChain() {
	u.Helper()
	u.Cleanup(func() {
		names := []string{u.unique("admin"), u.unique("edit"), u.unique("view")}
		all, err := list[*rbacv1.ClusterRole](u)
		for _, r := range all {
			if strings.HasPrefix(r.Name, u.unique("")) && !slices.Contains(names, r.Name) {
				names = append(names, r.Name)
			}
		}
		for _, name := range names {
			err = errors.Join(err, ignoreNotFound(remove[*rbacv1.ClusterRole](u, name)))
		}
		if err != nil {
			u.Errorf("clean up: %v", err)
		}
	})
	for i, name := range chain {
		u.role(fmt.Sprintf("%s aggregate=%s to=%s", name, name, append(chain, "-")[i+1]))
	}
}

// addToChain makes a ClusterRole that the first of the chain aggregates.
func (u *User) addToChain(resource string) {
	u.Helper()
	u.role(fmt.Sprintf("%s to=%s rules=%s", resource, chain[0], resource))
}

// waitChain waits until all roles of the chain have just a rule for each resource.
func (u *User) waitChain(resources ...string) {
	u.Helper()
	want := textsOf(rulesOf(strings.Join(resources, "+")))
	for _, name := range chain {
		Await(u, u.unique(name), func(r *rbacv1.ClusterRole) error { return unless(slices.Equal(textsOf(r.Rules), want), r.Rules) })
	}
}
