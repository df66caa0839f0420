package rbac

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Home is the namespace of the leases and of all service accounts (CI-20, RB-8).
const Home = metav1.NamespaceSystem

// Root stands for the root identity among the accounts of controllers.
const Root = ""

// Rule is a right, and what it is for.
type Rule struct {
	Group    string   // "" is the core group, "*" any
	Resource string   // with its subresource, as in "deployments/status"; "*" is any, "*/scale" that of any
	Verbs    []string // "*" is any
	Names    []string // of the objects, where the right can be as narrow as that; none means all
	For      string   // in a few words

	// Implied rights are never exercised by a request: an admission plugin asks whether we have them.
	Implied bool
	// Gate is the feature gate of Kubernetes without which the right is not used; empty for none.
	Gate string
}

// Resource is a kind of objects as the API names it. Gate is the feature gate without which it is not read, if there
// is one.
type Resource struct{ Group, Name, Gate string }

// Rights are what a controller asks of the API server.
type Rights struct {
	// Caches are what it reads from caches. The shared informers fill them, for all controllers with the root identity.
	Caches []Resource
	// Own is what it does itself, as its service account, in all namespaces.
	Own []Rule
	// In is what it does itself in one namespace alone, by the namespace.
	In map[string][]Rule
}

// MayCache returns why a resource may not be cached with these rights; nil if it may.
func (r Rights) MayCache(resource schema.GroupResource) error {
	if slices.ContainsFunc(r.Caches, func(c Resource) bool {
		return c.Group == resource.Group && c.Name == resource.Resource
	}) {
		return nil
	}
	return fmt.Errorf("the controller has no right to list and watch %s, name it among the Caches of its Rights",
		resource)
}

// With returns the rights that are used with feature gates as they are.
func (r Rights) With(enabled func(gate string) bool) Rights {
	off := func(rule Rule) bool { return rule.Gate != "" && !enabled(rule.Gate) }
	used := Rights{
		Caches: slices.DeleteFunc(slices.Clone(r.Caches),
			func(c Resource) bool { return c.Gate != "" && !enabled(c.Gate) }),
		Own: slices.DeleteFunc(slices.Clone(r.Own), off),
	}
	for namespace, rules := range r.In {
		if used.In == nil {
			used.In = map[string][]Rule{}
		}
		used.In[namespace] = slices.DeleteFunc(slices.Clone(rules), off)
	}
	return used
}

// Merge returns the rights of both. Several controllers may have one account, which then has the rights of all of them.
func (r Rights) Merge(other Rights) Rights {
	merged := Rights{Own: mergeRules(r.Own, other.Own)}
	for _, cache := range slices.Concat(r.Caches, other.Caches) {
		if !slices.Contains(merged.Caches, cache) {
			merged.Caches = append(merged.Caches, cache)
		}
	}
	for _, one := range []map[string][]Rule{r.In, other.In} {
		for namespace, rules := range one {
			if merged.In == nil {
				merged.In = map[string][]Rule{}
			}
			merged.In[namespace] = mergeRules(merged.In[namespace], rules)
		}
	}
	return merged
}

// mergeRules returns the rules of both, each once. Rules that differ in what they are for only are one.
func mergeRules(a, b []Rule) (merged []Rule) {
	for _, rule := range slices.Concat(a, b) {
		known := slices.ContainsFunc(merged, func(m Rule) bool {
			return m.Group == rule.Group && m.Resource == rule.Resource && m.Implied == rule.Implied &&
				m.Gate == rule.Gate && slices.Equal(m.Verbs, rule.Verbs) && slices.Equal(m.Names, rule.Names)
		})
		if !known {
			merged = append(merged, rule)
		}
	}
	return merged
}

// Identity is all that one who asks may do.
type Identity struct {
	Cluster []Rule // in all namespaces
	Home    []Rule // in Home alone
}

// Events are the rules for recording events. Repeated ones are counted by a patch (CI-41).
func Events() []Rule {
	return []Rule{{Resource: "events", Verbs: []string{"create", "patch"}, For: "events"}}
}

// Manager is the root identity: what the process does apart from the controllers that have accounts of their own
// (RB-6, RB-7). It also records events for controllers whose accounts may not. The controllers are given by their
// accounts. The rules of [Lease] join it.
func Manager(controllers map[string]Rights) Identity {
	accounts := slices.DeleteFunc(slices.Sorted(maps.Keys(controllers)),
		func(account string) bool { return account == Root })
	return Identity{
		Cluster: append(slices.Concat(caches(controllers), controllers[Root].Own, Events()),
			Rule{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"},
				For: "authentication of the clients of the manager's server"},
			Rule{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"},
				For: "authorization of the clients of the manager's server"},
		),
		Home: []Rule{
			{Resource: "serviceaccounts", Verbs: []string{"create"},
				For: "the account of a controller, if it does not exist yet"},
			{Resource: "serviceaccounts", Verbs: []string{"get"}, Names: accounts, For: "whether the account exists"},
			{Resource: "serviceaccounts/token", Verbs: []string{"create"}, Names: accounts,
				For: "the controllers' identities"},
			{Resource: "namespaces", Verbs: []string{"get"}, Names: []string{Home},
				For: "whether the namespace exists, before an account is created in it"},
			trustedAuthorities(),
		},
	}
}

// trustedAuthorities is the rule for what the manager's server reads of the cluster.
func trustedAuthorities() Rule {
	return Rule{Resource: "configmaps", Verbs: []string{"get"}, Names: []string{"extension-apiserver-authentication"},
		For: "the certificate authorities that the manager's server trusts"}
}

// Lease are the rules for leader election (RB-7, RB-8). A right to create cannot be narrowed to a name.
func Lease(name string) []Rule {
	const group = "coordination.k8s.io"
	return []Rule{
		{Group: group, Resource: "leases", Verbs: []string{"create"}, For: "leader election"},
		{Group: group, Resource: "leases", Verbs: []string{"get", "update", "watch"}, Names: []string{name},
			For: "leader election"},
	}
}

// caches are the rules for the informers of all controllers.
func caches(controllers map[string]Rights) (rules []Rule) {
	byGroup := map[string][]string{}
	for _, rights := range controllers {
		for _, r := range rights.Caches {
			if !slices.Contains(byGroup[r.Group], r.Name) {
				byGroup[r.Group] = append(byGroup[r.Group], r.Name)
			}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		slices.Sort(byGroup[group])
		for _, name := range byGroup[group] {
			rules = append(rules,
				Rule{Group: group, Resource: name, Verbs: []string{"list", "watch"}, For: "the shared caches"})
		}
	}
	return rules
}
