package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

var deletable = []string{"list", "watch", "delete"}

// Of all resources those are found that can be listed, watched and deleted (GC-6), with the subresources left out.
func TestPreferredResourcesByVerbs(t *testing.T) {
	inBothForms(t, func(t *testing.T, legacy bool) {
		daemons := Mapping{appsv1.SchemeGroupVersion.WithKind("DaemonSet"), "daemonsets", true, true}
		status := widgets
		status.Resource = "widgets/status"
		c, m := startCatalog(t, legacy, widgets, status, worlds, gadgets, daemons)
		c.set(func() {
			c.verbs = map[string][]string{
				widgets.Resource: {"delete", "get", "list", "patch", "watch"}, status.Resource: deletable,
				worlds.Resource: {"list", "watch"}, daemons.Resource: deletable, gadgets.Resource: {"create"},
			}
		})
		got, err := m.PreferredResources(t.Context(), deletable...)
		if diff := cmp.Diff([]Mapping{daemons, widgets}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err = m.PreferredResources(t.Context(), "watch"); len(got) != 3 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if got := c.requests(); got != 1 {
			t.Errorf("discovered %d times", got)
		}
	})
}

// GC-9: the discovery of one group fails; the error says which, and the rest is found.
func TestPreferredResourcesOfAFailingGroup(t *testing.T) {
	inBothForms(t, func(t *testing.T, legacy bool) {
		c, m := startCatalog(t, legacy, widgets, gadgets)
		c.set(func() {
			c.verbs = map[string][]string{widgets.Resource: deletable, gadgets.Resource: deletable}
			c.failing[gadgets.GroupVersion()] = true
		})
		got, err := m.PreferredResources(t.Context(), deletable...)
		if diff := cmp.Diff([]Mapping{widgets}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
		if _, ok := failed[gadgets.GroupVersion()]; !partial || len(failed) != 1 || !ok {
			t.Errorf("got %v", err)
		}
	})
}

// Nothing is known of a server that is away, also if something was known before; when it is back, all is.
func TestPreferredResourcesOfAServerThatIsAway(t *testing.T) {
	c, m := startCatalog(t, false, widgets)
	find := func() ([]Mapping, error) {
		m.set(func() { m.tried = m.tried.Add(-rediscoverAfter) })
		return m.PreferredResources(t.Context(), "get")
	}
	for _, away := range []bool{true, false, true, false} {
		c.set(func() { c.away = away })
		got, err := find()
		if _, partial := discovery.GroupDiscoveryFailedErrorGroups(err); partial || (err != nil) != away || (len(got) == 0) != away {
			t.Errorf("away %t: %+v, %v", away, got, err)
		}
	}
}

// Discovery comes from a server that may be anybody's.
func TestPreferredResourcesWithAMalformedVersion(t *testing.T) {
	odd := gadgets
	odd.GroupVersionKind.Version = "v1/v2"
	_, m := startCatalog(t, true, odd)
	if got, err := m.PreferredResources(t.Context()); err == nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Mapping(t.Context(), schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "X"}); err == nil {
		t.Error("found")
	}
}
