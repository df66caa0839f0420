package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// clusterRole makes a ClusterRole that is there until the end of the test, with a rule for each resource. Names are completed by that of
// the test's namespace.
func (b *bench) clusterRole(name string, edit func(*rbacv1.ClusterRole), resources ...string) {
	b.Helper()
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + name, Labels: map[string]string{}}}
	for _, resource := range resources {
		r.Rules = append(r.Rules,
			rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{resource}, Verbs: []string{"get"}})
	}
	edit(r)
	if _, err := b.Client.RbacV1().ClusterRoles().Create(b.Context(), r, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.removeClusterRole(name) })
}

func (b *bench) removeClusterRole(name string) {
	b.Helper()
	if err := b.Client.RbacV1().ClusterRoles().Delete(context.Background(), b.ns+"-"+name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

// aggregating has a ClusterRole select those that are labelled for one of a name, and labels it for others.
func (b *bench) aggregating(name string, to ...string) func(*rbacv1.ClusterRole) {
	return func(r *rbacv1.ClusterRole) {
		r.AggregationRule = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + name: "true"}}}}
		labelled(to...)(r)
	}
}

func labelled(to ...string) func(*rbacv1.ClusterRole) {
	return func(r *rbacv1.ClusterRole) {
		for _, name := range to {
			r.Labels[aggregateTo+name] = "true"
		}
	}
}

// waitRules waits until a ClusterRole has rules for the resources of example.com, and for no others of that group.
func (b *bench) waitRules(name string, want ...string) (r *rbacv1.ClusterRole) {
	b.Helper()
	b.wait(fmt.Sprintf("%s has rules for %v", name, want), func() (err error) {
		if r, err = b.Client.RbacV1().ClusterRoles().Get(b.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		var got []string
		for _, rule := range r.Rules {
			if slices.Contains(rule.APIGroups, "example.com") && strings.HasPrefix(rule.Resources[0], b.ns) {
				got = append(got, rule.Resources...)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has those for %v", got)
		}
		return nil
	})
	return r
}

func (b *bench) patchClusterRole(name, document string) {
	b.Helper()
	_, err := b.Client.RbacV1().ClusterRoles().Patch(b.Context(), name, types.MergePatchType, []byte(document),
		metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		b.Fatal(err)
	}
}

// ownersOfRules returns who manages the rules of a ClusterRole.
func ownersOfRules(r *rbacv1.ClusterRole) (owners []string) {
	for _, f := range r.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.String(), `"f:rules"`) {
			owners = append(owners, fmt.Sprintf("%s by %s", f.Manager, f.Operation))
		}
	}
	return owners
}

// TestWellKnownRolesAggregate: a role that a custom resource brings reaches view, edit and admin, which the API server has made
// (SM-7, SM-8), and the API server lets the account write rules that it does not have (SM-10).
func TestWellKnownRolesAggregate(t *testing.T) {
	b := share(t)
	widgets := b.ns + "-widgets"
	b.clusterRole("view", labelled("view"), widgets)
	for _, name := range []string{"view", "edit", "admin"} {
		r := b.waitRules(name, widgets)
		if len(r.Rules) < 5 {
			t.Errorf("%s has only %d rules", name, len(r.Rules))
		}
	}
	b.removeClusterRole("view")
	for _, name := range []string{"view", "edit", "admin"} {
		b.waitRules(name)
	}
}

// TestRulesOfClusterRoles: the rules are those of the roles that are selected, whoever has written others, and the controller owns them
// under the name of the original (SM-2, SM-5, SM-6, SM-9).
func TestRulesOfClusterRoles(t *testing.T) {
	b := share(t)
	sum, one, two := b.ns+"-sum", b.ns+"-one", b.ns+"-two"
	b.clusterRole("sum", b.aggregating(sum), b.ns+"-mine")
	b.clusterRole("one", labelled(sum), one)
	const owner = "clusterrole-aggregation-controller by Apply"
	if owners := ownersOfRules(b.waitRules(sum, one)); !slices.Equal(owners, []string{owner}) {
		t.Errorf("the rules are managed by %v", owners)
	}
	b.patchClusterRole(sum, `{"rules":[{"apiGroups":["example.com"],"resources":["`+b.ns+`-mine"],"verbs":["get"]}]}`)
	if owners := ownersOfRules(b.waitRules(sum, one)); !slices.Equal(owners, []string{owner}) {
		t.Errorf("after an edit, the rules are managed by %v", owners)
	}
	b.clusterRole("two", labelled(sum), one, two)
	b.waitRules(sum, one, two)
	b.patchClusterRole(one, `{"metadata":{"labels":null}}`)
	b.patchClusterRole(two, `{"rules":[]}`)
	r := b.waitRules(sum)
	if len(r.Rules) > 0 {
		t.Errorf("rules are left: %v", r.Rules)
	}
	b.patchClusterRole(one, `{"metadata":{"labels":{"`+aggregateTo+sum+`":"true"}}}`)
	b.waitRules(sum, one)
	b.patchClusterRole(sum, `{"aggregationRule":null}`)
	b.removeClusterRole("one")
	b.clusterRole("next", b.aggregating(sum)) // when it is reconciled, the other one has been
	b.clusterRole("last", labelled(sum), two)
	b.waitRules(b.ns+"-next", two)
	b.waitRules(sum, one)
}

// TestRulesThatAreGivenUp: when nothing supplies rules to a role any more, those that were aggregated go from all of a chain, and belong to
// nobody, so that whoever applies the role next gets no conflict (SM-6, SM-7).
func TestRulesThatAreGivenUp(t *testing.T) {
	b := share(t)
	sum, all, one := b.ns+"-sum", b.ns+"-all", b.ns+"-one"
	b.clusterRole("sum", b.aggregating(sum, all))
	b.clusterRole("all", b.aggregating(all))
	b.clusterRole("one", labelled(sum), one)
	b.waitRules(sum, one)
	b.waitRules(all, one)
	b.removeClusterRole("one")
	for _, name := range []string{sum, all} {
		r := b.waitRules(name)
		for _, f := range r.ManagedFields {
			if f.Manager == "clusterrole-aggregation-controller" {
				t.Errorf("of %s, the controller owns %s", name, f.FieldsV1)
			}
		}
	}
	b.applyRules(sum, b.ns+"-mine")
	b.waitRules(all, b.ns+"-mine")
	b.waitRules(sum, b.ns+"-mine")
}

// TestRulesOfOthersStay: a role that selects nothing keeps the rules that somebody else has written, and they are aggregated (SM-6, SM-7).
func TestRulesOfOthersStay(t *testing.T) {
	b := share(t)
	sum, all, mine := b.ns+"-sum", b.ns+"-all", b.ns+"-mine"
	b.clusterRole("sum", b.aggregating(sum, all), mine)
	b.clusterRole("all", b.aggregating(all))
	b.waitRules(all, mine)
	b.patchClusterRole(sum, `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"`+sum+`":"true"}}]}}`) // it still selects nothing
	// when this is aggregated, the controller has seen the other change
	b.clusterRole("one", labelled(all), b.ns+"-one")
	b.waitRules(all, mine, b.ns+"-one")
	owners := ownersOfRules(b.waitRules(sum, mine))
	if len(owners) != 1 || strings.Contains(owners[0], "clusterrole-aggregation-controller") {
		t.Errorf("the rules are managed by %v", owners)
	}
}

// applyRules applies a rule for a resource to a ClusterRole, as kubectl does, and fails if somebody else owns the rules.
func (b *bench) applyRules(name, resource string) {
	b.Helper()
	document := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","rules":[{"apiGroups":["example.com"],"resources":["` +
		resource + `"],"verbs":["get"]}]}`
	_, err := b.Client.RbacV1().ClusterRoles().Patch(b.Context(), name, types.ApplyPatchType, []byte(document),
		metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		b.Errorf("apply %s: %v", name, err)
	}
}

// workOfClusterRoles has rules aggregated that the account of the controller does not have, and given up.
func (b *bench) workOfClusterRoles() {
	b.Helper()
	b.clusterRole("sum", b.aggregating(b.ns+"-sum"))
	b.clusterRole("part", labelled(b.ns+"-sum"), b.ns+"-part")
	b.waitRules(b.ns+"-sum", b.ns+"-part")
	b.removeClusterRole("part")
	b.waitRules(b.ns + "-sum")
}
