package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
)

// PreferredResources returns the resources that support all of the verbs, such as "list", "watch" and "delete": each
// in the version that its group prefers, without subresources, sorted by group and resource. It is answered from a
// discovery that is at most ten seconds old, so that several callers share one.
//
// If the discovery of some group versions failed, it returns the resources of all others with an error that
// [discovery.GroupDiscoveryFailedErrorGroups] takes apart. After any other error nothing is known.
func (m *Mapper) PreferredResources(ctx context.Context, verbs ...string) ([]Mapping, error) {
	return m.PreferredResourcesSince(ctx, time.Time{}, verbs...)
}

// PreferredResourcesSince does the same, from a discovery that also began no earlier than at the given time: it finds
// what was there then.
func (m *Mapper) PreferredResourcesSince(ctx context.Context, earliest time.Time, verbs ...string) ([]Mapping, error) {
	known, current := m.latest()
	for !current || known.began.Before(earliest) { // the one under way may have begun too early
		var err error
		if known, err = m.discover(ctx, known); err != nil {
			return nil, err
		}
		current = true
	}
	if known.err != nil {
		return nil, known.err
	}
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, known.answer)
	if _, partial := discovery.GroupDiscoveryFailedErrorGroups(err); err != nil && !partial {
		return nil, fmt.Errorf("preferred resources: %w", err)
	}
	var all []Mapping
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: verbs}, lists) {
		version, malformed := schema.ParseGroupVersion(list.GroupVersion)
		if malformed != nil {
			return nil, fmt.Errorf("preferred resources: %w", malformed)
		}
		for _, r := range list.APIResources {
			kind := version.WithKind(r.Kind)
			all = append(all, Mapping{kind, r.Name, r.Namespaced, scheme.Scheme.Recognizes(kind)})
		}
	}
	slices.SortFunc(all, func(a, b Mapping) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return all, err
}

// GroupsAndMaybeResourcesWithContext implements [discovery.AggregatedDiscoveryInterfaceWithContext].
func (a answer) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, resources := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, g := range a.groups {
		groups.Groups = append(groups.Groups, *g)
	}
	for _, list := range a.lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, nil, err
		}
		resources[version] = list
	}
	return groups, resources, a.failed, nil
}
