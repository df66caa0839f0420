package clusterroleaggregation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var names = []string{"admin", "edit", "view"}

// draw is a few ClusterRoles that aggregate one another.
func draw(t *rapid.T) (all []*rbacv1.ClusterRole) {
	for i := range rapid.IntRange(1, 6).Draw(t, "roles") {
		r := role(fmt.Sprint("r-", i), map[string]string{})
		for _, name := range names {
			if rapid.Bool().Draw(t, "labelled") {
				r.Labels["rbac.authorization.k8s.io/aggregate-to-"+name] = "true"
			}
		}
		if rapid.Bool().Draw(t, "owned") {
			owned(r)
		}
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			r.Rules = append(r.Rules,
				rule(rapid.SampledFrom(names).Draw(t, "resource"),
					rapid.SliceOfN(rapid.SampledFrom([]string{"get", "list"}), 0, 2).Draw(t, "verbs")...))
		}
		if rapid.Bool().Draw(t, "aggregates") {
			aggregate(r)
			for range rapid.IntRange(0, 2).Draw(t, "selectors") {
				selector := match(to(rapid.SampledFrom(names).Draw(t, "selector")))
				if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
					selector = everything
				}
				r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, selector)
			}
		}
		all = append(all, r)
	}
	return all
}

// written is what a plan makes of the rules of a role; false if it writes nothing. It has no rules if the field is not applied.
func written(p plan.Plan) (rules []rbacv1.PolicyRule, ok bool) {
	if p.Empty() {
		return nil, false
	}
	if o, ok := p.Steps[0].(plan.Change).New.(*rbacv1.ClusterRole); ok {
		return o.Rules, true
	}
	return []rbacv1.PolicyRule{}, true
}

// playRound writes what is planned for all roles, none of which knows what is written to the others. The rules that are written are then
// this controller's (SM-5), and where the field is not applied it owns nothing (SM-6).
func playRound(t *rapid.T, all []*rbacv1.ClusterRole) {
	plans := make([]plan.Plan, len(all))
	for i, r := range all {
		if r.AggregationRule != nil {
			plans[i] = planned(t, r, all...)
		}
	}
	for i, p := range plans {
		rules, ok := written(p)
		if !ok {
			continue
		}
		if all[i].Rules = rules; len(rules) > 0 {
			owned(all[i])
		} else {
			all[i].ManagedFields = nil
		}
	}
}

// Roles that aggregate one another, in chains and in cycles, come to rest after one write each (SM-7), and one more where the rules go of
// a role that selects nothing (SM-6). Then each has just the rules of those that it selects, each once, and nothing is written again.
func TestRolesComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := draw(t)
		playRound(t, all)
		playRound(t, all)
		for _, r := range all {
			if r.AggregationRule == nil {
				continue
			}
			if again := planned(t, r, all...); !again.Empty() {
				t.Errorf("%s is not done: %s", r.Name, again.Why)
			}
			checkRules(t, r, all)
		}
	})
}

// checkRules compares the rules of a role with what they are by definition (SM-2). One that is to have none has none of this controller's
// (SM-6).
func checkRules(t *rapid.T, r *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) {
	has := func(rules []rbacv1.PolicyRule, one rbacv1.PolicyRule) (n int) {
		for _, other := range rules {
			if equality.Semantic.DeepEqual(one, other) {
				n++
			}
		}
		return n
	}
	from := 0
	for _, other := range reached(r, all) {
		for _, one := range other.Rules {
			if len(one.Verbs) > 0 {
				from++
				if has(r.Rules, one) != 1 {
					t.Errorf("%s has a rule of %s %d times: %v", r.Name, other.Name, has(r.Rules, one), one)
				}
			}
		}
	}
	if len(r.Rules) > from && (from > 0 || ownsRules(r.ManagedFields)) {
		t.Errorf("%s has %d rules, of %d", r.Name, len(r.Rules), from)
	}
}

// reached are the roles that select no others, among those that a role selects directly, or by way of others.
func reached(r *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) (ends []*rbacv1.ClusterRole) {
	known, queue := []*rbacv1.ClusterRole{r}, []*rbacv1.ClusterRole{r}
	for ; len(queue) > 0; queue = queue[1:] {
		selects := slices.DeleteFunc(slices.Clone(all), func(other *rbacv1.ClusterRole) bool {
			return queue[0].AggregationRule == nil || !selects(queue[0], other)
		})
		if len(selects) == 0 && queue[0] != r {
			ends = append(ends, queue[0])
		}
		for _, other := range selects {
			if !slices.Contains(known, other) {
				known, queue = append(known, other), append(queue, other)
			}
		}
	}
	return ends
}

// A role is enqueued by each change of another one after which it is to have other rules (SM-1, SM-11).
func TestChangesAreNotOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := draw(t)
		before, after := rapid.SampledFrom(all).Draw(t, "before"), rapid.SampledFrom(draw(t)).Draw(t, "after").DeepCopy()
		after.Name, after.ResourceVersion = before.Name, "2"
		wanted := func() map[string][]rbacv1.PolicyRule {
			rules := map[string][]rbacv1.PolicyRule{}
			for _, r := range all {
				if r.AggregationRule != nil {
					found, err := sources(r, func(*metav1.LabelSelector) []*rbacv1.ClusterRole { return all })
					if err != nil {
						t.Fatal(err)
					}
					rules[r.Name] = aggregated(found)
				}
			}
			return rules
		}
		old := wanted()
		all[slices.Index(all, before)] = after
		aggregating := slices.DeleteFunc(slices.Clone(all), func(r *rbacv1.ClusterRole) bool { return r.AggregationRule == nil })
		keys := concerned(aggregating, before, after)
		if itself(before, after) {
			keys = append(keys, plan.KeyOf(after))
		}
		for name, now := range wanted() {
			if !sameRules(old[name], now) && !slices.Contains(keys, plan.Key{Name: name}) {
				t.Errorf("%s is to have %v, not %v, and is not enqueued", name, now, old[name])
			}
		}
	})
}

// anything is any snapshot.
func anything(t *rapid.T) snapshot {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	s := snapshot{Role: &rbacv1.ClusterRole{}, OwnsRules: rapid.Bool().Draw(t, "owns")}
	fill(s.Role)
	for range rapid.IntRange(0, 3).Draw(t, "sources") {
		source := &rbacv1.ClusterRole{}
		fill(source)
		s.Sources = append(s.Sources, source)
	}
	return s
}

// Whatever the objects are, planning does not change them, and is done after one write.
func TestPlanIsDoneAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		observed := plantest.Restored(t, s)
		rules, ok := written(planRules(epoch, s))
		if diff := cmp.Diff(observed, plantest.Restored(t, s)); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
		if !ok {
			return
		}
		s.Role.Rules, s.OwnsRules = rules, len(rules) > 0
		if again := planRules(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	project := func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
		o, err := kept.Project(r)
		if err != nil {
			t.Fatal(err)
		}
		return o.(*rbacv1.ClusterRole)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		if s.Role.AggregationRule != nil {
			s.Role.AggregationRule.ClusterRoleSelectors = append(s.Role.AggregationRule.ClusterRoleSelectors, everything)
		}
		thin := snapshot{Role: project(s.Role), OwnsRules: s.OwnsRules}
		for _, source := range s.Sources {
			thin.Sources = append(thin.Sources, project(source))
			if s.Role.AggregationRule != nil && selects(s.Role, source) != selects(thin.Role, thin.Sources[len(thin.Sources)-1]) {
				t.Error("it is selected by what is not cached")
			}
		}
		a, b := planRules(epoch, s), planRules(epoch, thin)
		if a.Why != b.Why {
			t.Errorf("%s, and with what is cached: %s", a.Why, b.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		a, b := planRules(epoch, s), planRules(epoch, plantest.Restored(t, s))
		if a.Why != b.Why {
			t.Errorf("%s, and after it was stored: %s", a.Why, b.Why)
		}
	})
}

// To ask whether labels match a selector gives the same as to parse it, whatever it is.
func TestSelectorsOfAnyKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		if s.Role.AggregationRule == nil {
			return
		}
		selectors, err := selectorsOf(s.Role)
		for i, selector := range selectors {
			for _, source := range s.Sources {
				one := &s.Role.AggregationRule.ClusterRoleSelectors[i]
				if err == nil && matches(one, source.Labels) != selector.Matches(labels.Set(source.Labels)) {
					t.Errorf("%v, %v", one, source.Labels)
				}
			}
		}
	})
}
