package apiserver

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// verbs are what each resource can do. Discovery lists them by name.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// discover answers /api, /apis, the paths of groups and versions, and /openapi.
func (s *Server) discover(req *http.Request) (runtime.Object, error) {
	path := strings.Trim(req.URL.Path, "/")
	parts := strings.Split(path, "/")
	aggregated := strings.Contains(req.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	switch {
	case parts[0] == "openapi":
		return s.openAPI(req)
	case path == "api" && aggregated, path == "apis" && aggregated:
		return s.aggregated(path == "api"), nil
	case path == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}, nil
	case path == "apis":
		return &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: s.groups()}, nil
	case parts[0] == "api" && len(parts) == 2:
		return s.resources(req, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 3:
		return s.resources(req, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "apis" && len(parts) == 2:
		for _, g := range s.groups() {
			if g.Name == parts[1] {
				g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return &g, nil
			}
		}
	}
	return nil, unknownPath(req.Method, req.URL.Path)
}

// Hide leaves a group out of discovery, or shows it again. Its objects are served as before.
func (s *Server) Hide(group string, hide bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden[group] = hide
}

// served are the stores by group and version, sorted by group, and in each by resource. The core group comes first.
func (s *Server) served() (versions []schema.GroupVersion, stores map[schema.GroupVersion][]*store) {
	stores = map[schema.GroupVersion][]*store{}
	for _, st := range s.stores {
		stores[st.GroupVersion()] = append(stores[st.GroupVersion()], st)
	}
	for _, list := range stores {
		slices.SortFunc(list, func(a, b *store) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	versions = slices.SortedFunc(maps.Keys(stores), func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
	})
	return versions, stores
}

// shown are those that discovery shows.
func (s *Server) shown() (versions []schema.GroupVersion, stores map[schema.GroupVersion][]*store) {
	versions, stores = s.served()
	s.mu.Lock()
	defer s.mu.Unlock()
	versions = slices.DeleteFunc(versions, func(gv schema.GroupVersion) bool { return s.hidden[gv.Group] })
	maps.DeleteFunc(stores, func(gv schema.GroupVersion, _ []*store) bool { return s.hidden[gv.Group] })
	return versions, stores
}

// groups are the groups of /apis. The first version of each is preferred: v1 before v1beta1.
func (s *Server) groups() (groups []metav1.APIGroup) {
	versions, _ := s.shown()
	for _, gv := range versions {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if last := len(groups) - 1; last < 0 || groups[last].Name != gv.Group {
			groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
		}
		of := &groups[len(groups)-1]
		of.Versions = append(of.Versions, v)
	}
	return groups
}

// resources are those of a version, with their subresources.
func (s *Server) resources(req *http.Request, gv schema.GroupVersion) (runtime.Object, error) {
	_, stores := s.shown()
	if len(stores[gv]) == 0 {
		return nil, unknownPath(req.Method, req.URL.Path)
	}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, st := range stores[gv] {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: st.Resource, SingularName: st.singular(), Namespaced: !st.Cluster, Kind: st.GroupVersionKind.Kind, Verbs: st.verbs(),
		})
		for _, name := range slices.Sorted(maps.Keys(st.subs)) {
			sub := st.subs[name]
			r := metav1.APIResource{Name: st.Resource + "/" + name, Namespaced: !st.Cluster, Kind: sub.Kind, Verbs: sub.verbs}
			if sub.GroupVersion() != gv {
				r.Group, r.Version = sub.Group, sub.Version
			}
			list.APIResources = append(list.APIResources, r)
		}
	}
	return list, nil
}

func (k *Kind) singular() string { return strings.ToLower(k.GroupVersionKind.Kind) }

// verbs of a resource.
func (k *Kind) verbs() []string {
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return slices.Contains(k.without, v) })
}

// aggregated is the discovery of the core group or of all others in one answer.
func (s *Server) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList",
		APIVersion: apidiscoveryv2.SchemeGroupVersion.String()}}
	versions, stores := s.shown()
	for _, gv := range versions {
		if (gv.Group == "") != core {
			continue
		}
		v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, st := range stores[gv] {
			v.Resources = append(v.Resources, st.discovery())
		}
		if last := len(list.Items) - 1; last < 0 || list.Items[last].Name != gv.Group {
			list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}})
		}
		of := &list.Items[len(list.Items)-1]
		of.Versions = append(of.Versions, v)
	}
	return list
}

func (k *Kind) discovery() apidiscoveryv2.APIResourceDiscovery {
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource: k.Resource, ResponseKind: asGVK(k.GroupVersionKind), Scope: apidiscoveryv2.ScopeNamespace,
		SingularResource: k.singular(), Verbs: k.verbs(),
	}
	if k.Cluster {
		r.Scope = apidiscoveryv2.ScopeCluster
	}
	for _, name := range slices.Sorted(maps.Keys(k.subs)) {
		sub := k.subs[name]
		r.Subresources = append(r.Subresources,
			apidiscoveryv2.APISubresourceDiscovery{Subresource: name, ResponseKind: asGVK(sub.GroupVersionKind), Verbs: sub.verbs})
	}
	return r
}

func asGVK(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
