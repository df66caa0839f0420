package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// refused reports the requests of managers that were refused for want of a right, and returns how many were looked at.
func (b *bench) refused(requests []cluster.Request) (seen int) {
	b.Helper()
	for _, r := range requests {
		if !r.ByManager() {
			continue
		}
		seen++
		if r.Forbidden() {
			b.Errorf("%s may not %s %s: %s", r.User.Username, r.Verb, r.RequestURI, r.Annotations["authorization.k8s.io/reason"])
		}
	}
	return seen
}

// TestDropInStaysWithinTheRolesOfTheOriginal: whoever puts the manager in the original's place needs no new roles (RB-1 to
// RB-8).
func TestDropInStaysWithinTheRolesOfTheOriginal(t *testing.T) {
	t.Parallel() // without a manager
	c := cluster.Start(t)
	clusterRole := func(name string) []rbacv1.PolicyRule {
		role, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return role.Rules
	}
	roleIn := func(namespace, name string) []rbacv1.PolicyRule {
		role, err := c.Client.RbacV1().Roles(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return role.Rules
	}
	declared := declaredRights(t, c)
	delete(declared, "storage-version-garbage-collector") // whose role API servers make only with a feature gate (REG-64)
	if c.Before(t, 36) {                                  // V37-117: the manager does without
		protection := declared["pvc-protection-controller"]
		protection.Own = slices.DeleteFunc(slices.Clone(protection.Own),
			func(r rbac.Rule) bool { return r.Resource == "persistentvolumeclaims/status" })
		declared["pvc-protection-controller"] = protection
		claims := declared["resource-claim-controller"] // that nobody asks for there (RC-163)
		claims.Own = slices.DeleteFunc(slices.Clone(claims.Own),
			func(r rbac.Rule) bool { return r.Resource == "resourceclaims/binding" })
		declared["resource-claim-controller"] = claims
	}
	if c.Before(t, 37) { // V37-116: the identity that watches Leases lists them
		nodes := declared["node-controller"]
		nodes.Own = slices.DeleteFunc(slices.Clone(nodes.Own), func(r rbac.Rule) bool { return r.Resource == "leases" })
		declared["node-controller"] = nodes
	}
	// Only with --taint-eviction-respect-disruption-budgets, whose documentation says so.
	nodes := declared["node-controller"]
	nodes.Own = slices.DeleteFunc(slices.Clone(nodes.Own), func(r rbac.Rule) bool { return r.Resource == "pods/eviction" })
	declared["node-controller"] = nodes
	for account, rights := range declared {
		if account == rbac.Root {
			continue // below
		}
		name, granted := "system:controller:"+account, []rbacv1.PolicyRule(nil)
		if len(rights.Own) > 0 { // of the others there are only roles in namespaces (BOOT-27)
			granted = clusterRole(name)
			within(t, account, rights.Own, granted)
		}
		for namespace, rules := range rights.In {
			if len(rights.Own) == 0 {
				granted = roleIn(namespace, name)
			}
			within(t, account, rules, granted)
		}
	}
	root := rbac.Manager(declared)
	within(t, "root", slices.Concat(root.Cluster, root.Home, rbac.Lease("any")), slices.Concat(
		clusterRole("system:kube-controller-manager"),
		roleIn(rbac.Home, "system::leader-locking-kube-controller-manager"),
		roleIn(rbac.Home, "extension-apiserver-authentication-reader")))
}

// since are the resources that servers have from a minor release on, in the version that the manager speaks (PGP-6, JOB-111, DTE-1).
var since = map[int][]string{
	37: {"workloads", "podgroups", "podgroups/status", "devicetaintrules", "devicetaintrules/status"},
	38: {"compositepodgroups"},
}

// declaredRights are the rights of the controllers whose APIs the server has, to resources that it has.
func declaredRights(t testing.TB, c *cluster.Cluster) map[string]rbac.Rights {
	declared := manager.Rights(servedControllers(t, c))
	lacks := func(resource string) bool {
		for minor, resources := range since {
			if c.Before(t, minor) && slices.Contains(resources, resource) {
				return true
			}
		}
		return false
	}
	for account, rights := range declared {
		rights.Own = slices.DeleteFunc(slices.Clone(rights.Own), func(r rbac.Rule) bool { return lacks(r.Resource) })
		rights.Caches = slices.DeleteFunc(slices.Clone(rights.Caches), func(r rbac.Resource) bool { return lacks(r.Name) })
		declared[account] = rights
	}
	if c.Before(t, 36) { // servers drop the taints of devices without a gate that is alpha there
		delete(declared, "device-taint-eviction-controller")
	}
	return declared
}

// within reports the rights that none of the granted rules has.
func within(t *testing.T, who string, asked []rbac.Rule, granted []rbacv1.PolicyRule) {
	t.Helper()
	has := func(list []string, item string) bool {
		return slices.Contains(list, item) || slices.Contains(list, "*")
	}
	for _, r := range asked {
		for _, verb := range r.Verbs {
			if !slices.ContainsFunc(granted, func(g rbacv1.PolicyRule) bool {
				return has(g.APIGroups, r.Group) && has(g.Resources, r.Resource) && has(g.Verbs, verb) &&
					(len(g.ResourceNames) == 0 ||
						len(r.Names) > 0 && !slices.ContainsFunc(r.Names, func(name string) bool { return !has(g.ResourceNames, name) }))
			}) {
				t.Errorf("the original's role of %s does not allow to %s %s", who, verb, r.Resource)
			}
		}
	}
}

// right is one thing that an identity may do, as text.
func right(account, verb, group, resource, name string) string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s/%s %s", account, verb, group, resource, name))
}

// unusedHere are the rights that nothing needs here: a server whose resources all have deletecollection (NS-16, NS-17), and one without
// DeviceTaintRules, whose rules alone evict so many pods that events are counted.
func unusedHere(t testing.TB, c *cluster.Cluster) []string {
	unused := []string{right("namespace-controller", "delete", "*", "*", "")}
	if c.Before(t, 37) {
		unused = append(unused, right("device-taint-eviction-controller", "patch", "", "events", ""))
	}
	return unused
}

func declares(rights map[string]bool, it string) bool {
	_, ok := rights[it]
	return ok
}

// compareRights reports what the managers have asked for without having declared it, and what they have declared and not
// asked for.
func compareRights(t *testing.T, c *cluster.Cluster, requests []cluster.Request) {
	t.Helper()
	wanted, narrow := map[string]bool{}, map[string]bool{}
	expect := func(account string, rules []rbac.Rule) {
		for _, r := range rules {
			for _, verb := range r.Verbs {
				if len(r.Names) > 0 {
					narrow[right(account, verb, r.Group, r.Resource, "")] = true
				}
				for _, name := range append(slices.Clone(r.Names), "")[:max(1, len(r.Names))] {
					wanted[right(account, verb, r.Group, r.Resource, name)] = !r.Implied
				}
			}
		}
	}
	declared := declaredRights(t, c)
	for account, rights := range declared {
		if account == rbac.Root {
			continue // below
		}
		expect(account, rights.Own)
		for _, rules := range rights.In {
			expect(account, rules)
		}
	}
	root := rbac.Manager(declared)
	expect(cluster.InstalledAccount, slices.Concat(root.Cluster, root.Home, rbac.Lease("kube-controller-manager")))

	used := map[string]bool{}
	for _, r := range requests {
		account, ours := strings.CutPrefix(r.User.Username, "system:serviceaccount:"+rbac.Home+":")
		if !ours || r.ObjectRef.Resource == "" || account == observer { // which has its own test
			continue
		}
		resource, name := r.ObjectRef.Resource, ""
		if r.ObjectRef.Subresource != "" {
			resource += "/" + r.ObjectRef.Subresource
		}
		if narrow[right(account, r.Verb, r.ObjectRef.APIGroup, resource, "")] {
			_, wide := wanted[right(account, r.Verb, r.ObjectRef.APIGroup, resource, "")]
			if _, named := wanted[right(account, r.Verb, r.ObjectRef.APIGroup, resource, r.ObjectRef.Name)]; named || !wide {
				name = r.ObjectRef.Name // else it is a right that a controller of the root identity has to all objects
			}
		}
		it := right(account, r.Verb, r.ObjectRef.APIGroup, resource, name)
		for _, wide := range []string{
			right(account, r.Verb, "*", "*", ""), right(account, r.Verb, "*", "*/"+r.ObjectRef.Subresource, ""),
			right(account, r.Verb, r.ObjectRef.APIGroup, "*", ""),
		} {
			if !declares(wanted, it) && declares(wanted, wide) {
				it = wide
			}
		}
		if !declares(wanted, it) && !used[it] {
			t.Errorf("not declared: %s (%s)", it, r.RequestURI)
		}
		used[it] = true
	}
	unused := unusedHere(t, c)
	for it, needed := range wanted {
		if needed && !used[it] && !slices.Contains(unused, it) {
			t.Errorf("declared, and not used: %s", it)
		}
	}
}
