package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// catalog is an API server of which discovery is all there is.
type catalog struct {
	mu      sync.Mutex
	legacy  bool // each group version has a page of its own
	away    bool
	asked   int // for the list of groups
	kinds   map[schema.GroupVersion][]Mapping
	failing map[schema.GroupVersion]bool
	verbs   map[string][]string // by resource; without an entry, "get"
	hold    chan struct{}       // if set, answers wait for it
}

func startCatalog(t *testing.T, legacy bool, kinds ...Mapping) (*catalog, *Mapper) {
	c := &catalog{legacy: legacy, kinds: map[schema.GroupVersion][]Mapping{}, failing: map[schema.GroupVersion]bool{}}
	c.add(kinds...)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	m, err := NewMapper(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c, m
}

func (c *catalog) add(kinds ...Mapping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range kinds {
		c.kinds[m.GroupVersion()] = append(c.kinds[m.GroupVersion()], m)
	}
}

func (c *catalog) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *catalog) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *catalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/apis" {
		c.asked++
	}
	var answer any
	aggregated := !c.legacy && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	switch {
	case r.URL.Path == "/api" && aggregated:
		answer = apidiscoveryv2.APIGroupDiscoveryList{}
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{Versions: []string{}}
	case r.URL.Path == "/apis" && aggregated:
		answer = c.aggregated()
	case r.URL.Path == "/apis":
		answer = c.groups()
	default:
		gv, _ := schema.ParseGroupVersion(strings.TrimPrefix(r.URL.Path, "/apis/"))
		if c.failing[gv] {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer = metav1.APIResourceList{GroupVersion: gv.String(), APIResources: c.resources(gv)}
	}
	contentType := jsonType
	if aggregated {
		contentType += ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	}
	w.Header().Set("Content-Type", contentType)
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *catalog) groups() (list metav1.APIGroupList) {
	for gv := range c.kinds {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group,
			Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	return list
}

func (c *catalog) resources(gv schema.GroupVersion) (all []metav1.APIResource) {
	for _, m := range c.kinds[gv] {
		all = append(all, metav1.APIResource{Name: m.Resource, Kind: m.Kind, Namespaced: m.Namespaced, Verbs: c.verbsOf(m)})
	}
	return all
}

func (c *catalog) verbsOf(m Mapping) []string {
	if verbs, ok := c.verbs[m.Resource]; ok {
		return verbs
	}
	return []string{"get"}
}

func (c *catalog) aggregated() (list apidiscoveryv2.APIGroupDiscoveryList) {
	for gv, kinds := range c.kinds {
		version := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		if c.failing[gv] {
			version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		}
		for _, m := range kinds {
			scope := apidiscoveryv2.ScopeCluster
			if m.Namespaced {
				scope = apidiscoveryv2.ScopeNamespace
			}
			version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: m.Resource, Scope: scope,
				ResponseKind: &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: m.Kind}, Verbs: c.verbsOf(m)})
		}
		group := apidiscoveryv2.APIGroupDiscovery{Versions: []apidiscoveryv2.APIVersionDiscovery{version}}
		group.Name = gv.Group
		list.Items = append(list.Items, group)
	}
	return list
}

var gadgets = Mapping{GroupVersionKind: schema.GroupVersionKind{Group: "aggregated.example.com", Version: "v1", Kind: "Gadget"},
	Resource: "gadgetry", Namespaced: true}

// inBothForms runs a test against a server with aggregated discovery and one without.
func inBothForms(t *testing.T, test func(t *testing.T, legacy bool)) {
	t.Run("aggregated", func(t *testing.T) { test(t, false) })
	t.Run("legacy", func(t *testing.T) { test(t, true) })
}

func TestCustomKindsAreDiscoveredOnce(t *testing.T) {
	inBothForms(t, func(t *testing.T, legacy bool) {
		c, m := startCatalog(t, legacy, widgets, worlds, gadgets)
		var wg sync.WaitGroup
		for range 8 {
			for _, want := range []Mapping{widgets, worlds, gadgets} {
				wg.Go(func() {
					if got, err := m.Mapping(t.Context(), want.GroupVersionKind); err != nil || got != want {
						t.Errorf("%+v, %v, want %+v", got, err, want)
					}
				})
			}
		}
		wg.Wait()
		if got, err := m.MappingFor(t.Context(), widget("a")); err != nil || got != widgets {
			t.Errorf("%+v, %v", got, err)
		}
		if got := c.requests(); got != 1 {
			t.Errorf("discovered %d times", got)
		}
		found, err := m.ResourceFor(schema.GroupVersionResource{Group: "aggregated.example.com", Resource: "gadgetry"})
		if err != nil || found != gadgets.GroupVersionResource() {
			t.Errorf("as a RESTMapper: %v, %v", found, err)
		}
	})
}

// Whoever looked before a discovery, and did not get to wait for it, takes what it has found.
func TestADiscoveryServesThoseWhoLookedBefore(t *testing.T) {
	c, m := startCatalog(t, false, widgets)
	before, _ := m.latest()
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := m.discover(t.Context(), before)
	if current, _ := m.latest(); err != nil || after != current || c.requests() != 1 {
		t.Errorf("%v, discovered %d times", err, c.requests())
	}
	if again, err := m.discover(t.Context(), after); err != nil || again == after || c.requests() != 2 {
		t.Errorf("%v, discovered %d times by one who knows of the first", err, c.requests())
	}
}

func TestBuiltInKindsNeedNoServer(t *testing.T) {
	c, m := startCatalog(t, false)
	c.set(func() { c.away = true })
	got, err := m.MappingFor(t.Context(), &appsv1.ControllerRevision{})
	if err != nil || got.Resource != "controllerrevisions" || !got.Namespaced {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDeadGroupHidesNoOther(t *testing.T) {
	inBothForms(t, func(t *testing.T, legacy bool) {
		c, m := startCatalog(t, legacy, widgets, gadgets)
		c.set(func() { c.failing[gadgets.GroupVersion()] = true })
		if got, err := m.Mapping(t.Context(), widgets.GroupVersionKind); err != nil || got != widgets {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := m.Mapping(t.Context(), gadgets.GroupVersionKind); err == nil || meta.IsNoMatchError(err) {
			t.Errorf("it is not known that there is no such kind, but the error is: %v", err)
		}
		if _, err := m.Mapping(t.Context(),
			schema.GroupVersionKind{Group: "none.example.com", Version: "v1", Kind: "None"}); !meta.IsNoMatchError(err) {
			t.Errorf("a kind that does not exist: %v", err)
		}
		c.set(func() { c.failing = nil })
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Mapping(t.Context(), gadgets.GroupVersionKind); err != nil || got != gadgets {
			t.Errorf("alive again: %+v, %v", got, err)
		}
	})
}

// A kind that appears later (a CRD) is found, without one discovery for each question.
func TestKindAppearsLater(t *testing.T) {
	c, m := startCatalog(t, false, widgets)
	missing := func() error {
		_, err := m.Mapping(t.Context(), gadgets.GroupVersionKind)
		return err
	}
	for range 100 {
		if err := missing(); !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
	}
	if got := c.requests(); got != 1 {
		t.Errorf("discovered %d times for one kind", got)
	}
	c.add(gadgets)
	if err := missing(); !meta.IsNoMatchError(err) {
		t.Errorf("discovered again at once: %v", err)
	}
	m.set(func() { m.tried = m.tried.Add(-rediscoverAfter) })
	if err := missing(); err != nil {
		t.Errorf("it has appeared: %v", err)
	}
	if got := c.requests(); got != 2 {
		t.Errorf("discovered %d times", got)
	}
}

func (m *Mapper) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// A discovery that hangs holds up those who ask for what is unknown, as long as they want to wait, and nobody else.
func TestDiscoveryHangs(t *testing.T) {
	c, m := startCatalog(t, false, widgets)
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.set(func() { m.tried = m.tried.Add(-rediscoverAfter) })
	hold := make(chan struct{})
	c.set(func() { c.hold = hold })
	c.add(gadgets)
	impatient, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := m.Mapping(impatient, gadgets.GroupVersionKind)
		waiting <- err
	}()
	go func() {
		_, err := m.Mappings(impatient, gadgets.GroupKind())
		waiting <- err
	}()
	for running := false; !running; time.Sleep(time.Millisecond) {
		m.set(func() { running = m.running != nil })
	}
	if got, err := m.Mapping(t.Context(), widgets.GroupVersionKind); err != nil || got != widgets {
		t.Errorf("a known kind: %+v, %v", got, err)
	}
	cancel()
	for range 2 {
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	}
	close(hold)
	if got, err := m.Mappings(t.Context(), gadgets.GroupKind()); err != nil || len(got) != 1 || got[0] != gadgets {
		t.Errorf("all versions of a kind: %+v, %v", got, err)
	}
	if got, err := m.Mapping(t.Context(), gadgets.GroupVersionKind); err != nil || got != gadgets {
		t.Errorf("the discovery that was begun: %+v, %v", got, err)
	}
	if got := c.requests(); got != 2 {
		t.Errorf("discovered %d times", got)
	}
}

// While the server is away, what was known stays known, and that a kind is missing is not taken for granted.
func TestServerIsAway(t *testing.T) {
	c, m := startCatalog(t, false, widgets)
	c.set(func() { c.away = true })
	if _, err := m.Mapping(t.Context(), widgets.GroupVersionKind); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("nothing known: %v", err)
	}
	c.set(func() { c.away = false })
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.away = true })
	if err := m.Refresh(t.Context()); err == nil {
		t.Error("refreshed")
	}
	if got, err := m.Mapping(t.Context(), widgets.GroupVersionKind); err != nil || got != widgets {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Mapping(t.Context(), gadgets.GroupVersionKind); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("not known to be missing: %v", err)
	}
}

func TestHasSubresource(t *testing.T) {
	c, m := startCatalog(t, true, widgets,
		Mapping{GroupVersionKind: widgets.GroupVersion().WithKind("Scale"), Resource: widgets.Resource + "/scale"})
	for name, want := range map[string]bool{"scale": true, "status": false} {
		if got, err := m.HasSubresource(t.Context(), widgets, name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := m.HasSubresource(t.Context(), gadgets, "scale"); err != nil || got || c.requests() != 1 {
		t.Errorf("of another kind: %v, %v, discovered %d times", got, err, c.requests())
	}
	c, m = startCatalog(t, false)
	c.set(func() { c.away = true })
	if got, err := m.HasSubresource(t.Context(), widgets, "scale"); err == nil || got {
		t.Errorf("of a server that is away: %v, %v", got, err)
	}
}
