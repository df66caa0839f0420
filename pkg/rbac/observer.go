package rbac

import (
	"maps"
	"slices"
	"strings"
)

// Observer returns what one identity needs to run the controllers of these accounts so that they observe and plan, and
// nothing is carried out: to list and watch, and to ask the API server for reviews, which it answers and does not
// store. An observer gets only subresources and metrics. It lists objects by their names, because the right to get
// everything includes the proxy of nodes, through which commands run in pods.
func Observer(controllers map[string]Rights) Rights {
	manager := Manager(controllers)
	all := Rights{Own: reading(manager.Cluster), In: map[string][]Rule{Home: {trustedAuthorities()}}}
	for _, account := range slices.Sorted(maps.Keys(controllers)) {
		if account == Root {
			continue // the manager has them
		}
		rights := Rights{Own: reading(controllers[account].Own), In: map[string][]Rule{}}
		for namespace, rules := range controllers[account].In {
			if read := reading(rules); len(read) > 0 {
				rights.In[namespace] = read
			}
		}
		all = all.Merge(rights)
	}
	return all.Merge(Rights{Own: []Rule{
		{Resource: "events", Verbs: []string{"list"}, For: "whether what is not done was refused"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"list"}, For: "whether anybody leads"},
	}})
}

// reading returns what of the rules is needed to read. What only admission asks for is for writes.
func reading(rules []Rule) (read []Rule) {
	for _, rule := range rules {
		var verbs []string
		for _, verb := range rule.Verbs {
			if verb == "get" && !rule.onlyGot() {
				verb = "list"
			}
			reads := verb == "get" || verb == "list" || verb == "watch" || rule.asks(verb)
			if reads && !slices.Contains(verbs, verb) {
				verbs = append(verbs, verb)
			}
		}
		if everything := rule.Group == "*" && rule.Resource == "*"; everything && slices.Contains(rule.Verbs, "get") {
			read = append(read, Rule{Group: "apiregistration.k8s.io", Resource: "apiservices", Verbs: []string{"get"},
				For: "who serves a group of APIs"})
		}
		if rule.Verbs = verbs; len(verbs) > 0 && !rule.Implied {
			read = append(read, rule)
		}
	}
	return read
}

// onlyGot reports whether the rule is about what cannot be listed: subresources, and metrics of objects.
func (r Rule) onlyGot() bool {
	return strings.Contains(r.Resource, "/") || r.Group == "custom.metrics.k8s.io"
}

// asks reports whether to create an object is to ask for a review.
func (r Rule) asks(verb string) bool {
	return verb == "create" && (r.Group == "authentication.k8s.io" && r.Resource == "tokenreviews" ||
		r.Group == "authorization.k8s.io" && r.Resource == "subjectaccessreviews")
}
