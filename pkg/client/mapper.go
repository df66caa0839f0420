package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// rediscoverAfter is how long the mapper takes what it has discovered, or that it could not, for the current state
// when a kind is not in it.
const rediscoverAfter = 10 * time.Second

// KindMapper finds out how objects are addressed. [Mapper] does.
type KindMapper interface {
	Mapping(ctx context.Context, kind schema.GroupVersionKind) (Mapping, error)
	MappingFor(ctx context.Context, o runtime.Object) (Mapping, error)
}

// Mapper finds the mappings of all kinds. What it has discovered is shared by all who ask and kept; when a kind is
// missing, discovery is asked again, at most once in ten seconds. Meanwhile known kinds are found without delay. A
// group whose discovery fails, such as that of an aggregated API server that is down, hides no other group.
//
// It is a [meta.RESTMapper] as well, for libraries. That has no context: each call then ends within [RequestTimeout],
// also when the term has ended before, so controllers call the methods with a context.
type Mapper struct {
	cache   discovery.CachedDiscoveryInterface
	schemes []*runtime.Scheme // of the kinds of typed objects that are not built in

	mu      sync.Mutex
	known   *discovered   // what the latest discovery has found; never nil, never changed
	tried   time.Time     // when it ended
	running chan struct{} // closed at the end of the discovery under way; nil if none is
}

// discovered is what a discovery has found.
type discovered struct {
	kinds meta.RESTMapper
	answer
	began time.Time
	err   error // it has found nothing at all
}

var _ meta.RESTMapper = (*Mapper)(nil)

// NewMapper returns a mapper for the server of the configuration. It makes no request before it needs one.
func NewMapper(config *rest.Config) (*Mapper, error) {
	bounded := *config
	bounded.Timeout = RequestTimeout
	client, err := discovery.NewDiscoveryClientForConfig(&bounded)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	return &Mapper{
		cache: memory.NewMemCacheClient(client),
		known: &discovered{kinds: meta.MultiRESTMapper{}},
	}, nil
}

// AddScheme lets the mapper know the kinds of typed objects of one more scheme. It must be called before the mapper is
// used.
func (m *Mapper) AddScheme(s *runtime.Scheme) { m.schemes = append(m.schemes, s) }

// MappingFor returns the mapping of an object's kind, see [KindOf] and [Mapper.Mapping].
func (m *Mapper) MappingFor(ctx context.Context, o runtime.Object) (Mapping, error) {
	kind, err := KindOf(o)
	for _, s := range m.schemes {
		if kinds, _, found := s.ObjectKinds(o); err != nil && found == nil {
			kind, err = kinds[0], nil
		}
	}
	if err != nil {
		return Mapping{}, err
	}
	return m.Mapping(ctx, kind)
}

// Mapping returns the mapping of a kind. For a built-in kind no request is made. If the server does not have the
// kind, the error is one of which [meta.IsNoMatchError] is true; it is not when that could not be found out.
func (m *Mapper) Mapping(ctx context.Context, kind schema.GroupVersionKind) (Mapping, error) {
	if builtIn, ok := BuiltIn(kind); ok {
		return builtIn, nil
	}
	found, err := find(ctx, m, func(r meta.RESTMapper) (*meta.RESTMapping, error) {
		return r.RESTMapping(kind.GroupKind(), kind.Version)
	})
	if err != nil {
		return Mapping{}, err
	}
	return mappingOf(found), nil
}

// Kind returns the kind of a resource, in the version that the server prefers if the resource names none.
func (m *Mapper) Kind(ctx context.Context, r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return find(ctx, m, func(known meta.RESTMapper) (schema.GroupVersionKind, error) { return known.KindFor(r) })
}

// Mappings returns the mappings of all versions of a kind, the preferred one first. The kind need not be built in.
func (m *Mapper) Mappings(ctx context.Context, kind schema.GroupKind) (all []Mapping, err error) {
	found, err := find(ctx, m, func(r meta.RESTMapper) ([]*meta.RESTMapping, error) { return r.RESTMappings(kind) })
	for _, one := range found {
		if builtIn, ok := BuiltIn(one.GroupVersionKind); ok {
			all = append(all, builtIn)
			continue
		}
		all = append(all, mappingOf(one))
	}
	return all, err
}

// mappingOf returns how a kind is addressed, in the form of this package.
func mappingOf(found *meta.RESTMapping) Mapping {
	return Mapping{
		GroupVersionKind: found.GroupVersionKind,
		Resource:         found.Resource.Resource,
		Namespaced:       found.Scope.Name() == meta.RESTScopeNameNamespace,
	}
}

// HasSubresource reports whether the server has a subresource of a resource, such as "scale". It discovers anew if
// that may help.
func (m *Mapper) HasSubresource(ctx context.Context, of Mapping, name string) (bool, error) {
	known, current := m.latest()
	if known.hasSubresource(of, name) || current {
		return known.hasSubresource(of, name), nil
	}
	known, err := m.discover(ctx, known)
	if err != nil {
		return false, err
	}
	return known.hasSubresource(of, name), known.err
}

// Discovery returns what the server has, as of the latest discovery. [Mapper.Refresh] brings it up to date; its own
// Invalidate would only empty it.
func (m *Mapper) Discovery() discovery.CachedDiscoveryInterface { return m.cache }

// Refresh discovers anew, or waits for the discovery that is under way. It returns an error if nothing could be found
// out; that single groups fail is none.
func (m *Mapper) Refresh(ctx context.Context) error {
	known, err := m.discover(ctx, nil)
	if err != nil {
		return err
	}
	return known.err
}

// find looks in what is known, and discovers anew if that may help.
func find[T any](ctx context.Context, m *Mapper, lookUp func(meta.RESTMapper) (T, error)) (T, error) {
	known, current := m.latest()
	found, err := lookUp(known.kinds)
	if !meta.IsNoMatchError(err) {
		return found, err
	}
	if !current {
		if known, err = m.discover(ctx, known); err != nil {
			return found, err
		}
		found, err = lookUp(known.kinds)
	}
	return found, known.explain(err)
}

// latest returns what is known, and whether that is current enough for a kind that it lacks.
func (m *Mapper) latest() (known *discovered, current bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known, !m.tried.IsZero() && time.Since(m.tried) < rediscoverAfter
}

// discover waits for the discovery that is under way, and begins one if none is, unless one has ended since the
// caller has looked at what was known; nil stands for a caller that has not looked.
func (m *Mapper) discover(ctx context.Context, seen *discovered) (*discovered, error) {
	m.mu.Lock()
	running := m.running
	if newer := m.known; running == nil && seen != nil && newer != seen {
		m.mu.Unlock()
		return newer, nil
	}
	if running == nil {
		running = make(chan struct{})
		m.running = running
		go m.run(running) // for all who wait: it does not end with the one who began it
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	select {
	case <-running:
		known, _ := m.latest()
		return known, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for discovery: %w", ctx.Err())
	}
}

// run is one discovery.
func (m *Mapper) run(done chan struct{}) {
	began := time.Now()
	m.cache.Invalidate()
	groups, lists, err := m.cache.ServerGroupsAndResources()
	found := &discovered{began: began}
	if failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err); err == nil || partial {
		found.answer = answer{groups: groups, lists: lists, failed: failed}
		// fails only where requests do
		all, _ := restmapper.GetAPIGroupResourcesWithContext(context.Background(), found.answer)
		found.kinds = restmapper.NewDiscoveryRESTMapper(all)
	} else {
		found.err = fmt.Errorf("discovery: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found.err != nil { // what was known is better than nothing
		found.kinds, found.answer = m.known.kinds, m.known.answer
	}
	m.known, m.tried, m.running = found, time.Now(), nil
	close(done)
}

// answer is a discovery whose requests have been made.
type answer struct {
	discovery.DiscoveryInterfaceWithContext
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	failed map[schema.GroupVersion]error // the group versions of which nothing is known
}

// ServerGroupsAndResourcesWithContext implements [discovery.DiscoveryInterfaceWithContext].
func (a answer) ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList,
	error) {
	return a.groups, a.lists, nil
}

// explain replaces an error that says that there is no such kind where discovery could not find out.
func (d *discovered) explain(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	if d.err != nil {
		return d.err
	}
	for version, cause := range d.failed {
		if version.Group == groupOf(err) {
			return fmt.Errorf("discovery of %s: %w", version, cause)
		}
	}
	return err
}

// hasSubresource reports whether a subresource was found.
func (d *discovered) hasSubresource(of Mapping, name string) bool {
	return slices.ContainsFunc(d.lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == of.GroupVersion().String() &&
			slices.ContainsFunc(l.APIResources,
				func(r metav1.APIResource) bool { return r.Name == of.Resource+"/"+name })
	})
}

// groupOf returns the group in which there was no match.
func groupOf(err error) string {
	var kind *meta.NoKindMatchError
	if errors.As(err, &kind) {
		return kind.GroupKind.Group
	}
	var resource *meta.NoResourceMatchError
	if errors.As(err, &resource) {
		return resource.PartialResource.Group
	}
	return ""
}

// KindFor implements [meta.RESTMapper].
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.Kind(context.Background(), resource)
}

// KindsFor implements [meta.RESTMapper].
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) ([]schema.GroupVersionKind, error) { return r.KindsFor(resource) })
}

// ResourceFor implements [meta.RESTMapper].
func (m *Mapper) ResourceFor(partial schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) (schema.GroupVersionResource, error) { return r.ResourceFor(partial) })
}

// ResourcesFor implements [meta.RESTMapper].
func (m *Mapper) ResourcesFor(partial schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) ([]schema.GroupVersionResource, error) { return r.ResourcesFor(partial) })
}

// RESTMapping implements [meta.RESTMapper].
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) (*meta.RESTMapping, error) { return r.RESTMapping(kind, versions...) })
}

// RESTMappings implements [meta.RESTMapper].
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) ([]*meta.RESTMapping, error) { return r.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements [meta.RESTMapper].
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return find(context.Background(), m,
		func(r meta.RESTMapper) (string, error) { return r.ResourceSingularizer(resource) })
}
