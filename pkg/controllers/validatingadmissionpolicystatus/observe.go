package validatingadmissionpolicystatus

import (
	"cmp"
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// mostTypes is for how many types of one rule a policy is checked (VAP-4).
const mostTypes = 10

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
	for _, rule := range rulesOf(s.Policy) {
		found := 0
		for _, resource := range rule {
			if found == mostTypes {
				break
			}
			t, err := types.resolve(ctx, resource.GroupVersion(), origin{Resource: resource.Resource})
			switch {
			case err != nil:
				return err
			case t == nil:
				s.Unknown = append(s.Unknown, resource.GroupResource().String()+" of "+resource.GroupVersion().String())
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
		s.Unknown = append(s.Unknown, "the parameters "+version.WithKind(kind).String())
	}
	return err
}

// paramsOf returns the kind of the parameters of a policy.
func paramsOf(p *admissionv1.ValidatingAdmissionPolicy) (version schema.GroupVersion, kind string, ok bool) {
	if p.Spec.ParamKind == nil {
		return version, "", false
	}
	version, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	return version, p.Spec.ParamKind.Kind, err == nil
}

// rulesOf returns the resources that each rule of a policy names, in order. A rule for all groups or versions names
// none, and those with a wildcard and subresources are left out (VAP-4).
func rulesOf(p *admissionv1.ValidatingAdmissionPolicy) (rules [][]schema.GroupVersionResource) {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIVersions, "*") {
			continue
		}
		var named []schema.GroupVersionResource
		for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
			for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
				of := schema.GroupVersion{Group: group, Version: version}
				for _, resource := range slices.Sorted(slices.Values(rule.Resources)) {
					if !strings.ContainsAny(resource, "*/") {
						named = append(named, of.WithResource(resource))
					}
				}
			}
		}
		rules = append(rules, named)
	}
	return rules
}

// customGroups returns the groups which a policy names and Kubernetes does not have by itself.
func customGroups(p *admissionv1.ValidatingAdmissionPolicy) (groups []string) {
	add := func(group string) {
		if !scheme.Scheme.IsGroupRegistered(group) && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	for _, rule := range rulesOf(p) {
		for _, resource := range rule {
			add(resource.Group)
		}
	}
	if version, _, ok := paramsOf(p); ok {
		add(version.Group)
	}
	return groups
}
