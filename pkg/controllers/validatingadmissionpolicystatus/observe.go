package validatingadmissionpolicystatus

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// What is looked for of a policy is bounded: a rule stands for as many resources as the numbers of its groups, versions
// and resources multiply to.
const (
	mostTypes   = 10     // of one rule (VAP-4)
	mostNames   = 1000   // that are tried for one rule
	mostTried   = 20_000 // for all of them
	mostUnknown = 20     // that are told
)

// caches are what the controller reads besides what it reads live.
type caches struct {
	policies informers.IndexedStore[*admissionv1.ValidatingAdmissionPolicy] // by the groups of custom resources

	// published is the term: what is known of what the API server publishes.
	published *reconcile.Term[published]
}

type (
	request     = reconcile.Request[struct{}]
	observation = reconcile.Observation[snapshot, struct{}]
)

// observe finds a policy, and of one that is to be checked also the types that it is about.
func (k *caches) observe(ctx context.Context, r request) (o observation, err error) {
	p := k.policies.Get("", r.Key.Name)
	if p == nil {
		return o, nil
	}
	groups := customGroups(p)
	o.Exists = true
	s := &o.Snapshot
	s.Policy, s.Custom = p, len(groups) > 0
	if !due(p, s.Custom) {
		return o, nil
	}
	known, _ := k.published.Get()
	s.Changed = slices.ContainsFunc(groups, known.hasChanged)
	return o, observeTypes(ctx, r, s, known)
}

// observeTypes finds the types that a policy is about.
func observeTypes(ctx context.Context, r request, s *snapshot, known published) error {
	types := resolver{reader: r.Reader, known: known, documents: map[string]*document{}}
	tried := 0
	for rule := range rulesOf(s.Policy) {
		found, most := 0, min(tried+mostNames, mostTried)
		for resource := range rule.all() {
			if found == mostTypes || tried == most {
				break
			}
			tried++
			t, err := types.resolve(ctx, resource.GroupVersion(), origin{Resource: resource.Resource})
			switch {
			case err != nil:
				return err
			case t == nil:
				s.unknown(func() string {
					return resource.GroupResource().String() + " of " + resource.GroupVersion().String()
				})
				continue
			}
			found++
			if !slices.ContainsFunc(s.Types, func(o objectType) bool { return o.Kind == t.Kind }) {
				s.Types = append(s.Types, *t)
			}
		}
	}
	slices.SortFunc(s.Types, func(a, b objectType) int { // VAP-4
		return cmp.Or(strings.Compare(a.Kind.Group, b.Kind.Group), strings.Compare(a.Kind.Version, b.Kind.Version),
			strings.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	version, kind, ok := paramsOf(s.Policy)
	if !ok {
		return nil
	}
	var err error
	if s.Params, err = types.resolve(ctx, version, origin{Kind: kind}); err == nil && s.Params == nil {
		s.unknown(func() string { return "the parameters " + version.WithKind(kind).String() })
	}
	return err
}

// unknown notes that the API server has published nothing about something.
func (s *snapshot) unknown(what func() string) {
	switch n := len(s.Unknown); {
	case n < mostUnknown:
		s.Unknown = append(s.Unknown, what())
	case n == mostUnknown:
		s.Unknown = append(s.Unknown, "others")
	}
}

// paramsOf returns the kind of the parameters of a policy.
func paramsOf(p *admissionv1.ValidatingAdmissionPolicy) (version schema.GroupVersion, kind string, ok bool) {
	if p.Spec.ParamKind == nil {
		return version, "", false
	}
	version, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	return version, p.Spec.ParamKind.Kind, err == nil
}

// ruleNames are the names in a rule, in order.
type ruleNames struct{ groups, versions, resources []string }

// rulesOf returns what each rule of a policy names. A rule for all groups or versions names nothing, and resources with
// a wildcard and subresources are left out (VAP-4).
func rulesOf(p *admissionv1.ValidatingAdmissionPolicy) iter.Seq[ruleNames] {
	return func(yield func(ruleNames) bool) {
		if p.Spec.MatchConstraints == nil {
			return
		}
		for i := range p.Spec.MatchConstraints.ResourceRules {
			rule := &p.Spec.MatchConstraints.ResourceRules[i].Rule
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIVersions, "*") {
				continue
			}
			resources := slices.DeleteFunc(slices.Sorted(slices.Values(rule.Resources)), func(resource string) bool {
				return strings.ContainsAny(resource, "*/")
			})
			if !yield(ruleNames{slices.Sorted(slices.Values(rule.APIGroups)),
				slices.Sorted(slices.Values(rule.APIVersions)), resources}) {
				return
			}
		}
	}
}

// all returns the resources for which a rule stands.
func (n ruleNames) all() iter.Seq[schema.GroupVersionResource] {
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, group := range n.groups {
			for _, version := range n.versions {
				of := schema.GroupVersion{Group: group, Version: version}
				for _, resource := range n.resources {
					if !yield(of.WithResource(resource)) {
						return
					}
				}
			}
		}
	}
}

// customGroups returns the groups which a policy names and Kubernetes does not have by itself.
func customGroups(p *admissionv1.ValidatingAdmissionPolicy) []string {
	groups := map[string]struct{}{}
	add := func(group string) {
		if !scheme.Scheme.IsGroupRegistered(group) {
			groups[group] = struct{}{}
		}
	}
	for rule := range rulesOf(p) {
		if len(rule.versions) == 0 || len(rule.resources) == 0 {
			continue
		}
		for _, group := range rule.groups {
			add(group)
		}
	}
	if version, _, ok := paramsOf(p); ok {
		add(version.Group)
	}
	return slices.Sorted(maps.Keys(groups))
}
