package informers

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// asked is a server that answers nothing and notes what it was asked for.
type asked struct {
	mu   sync.Mutex
	seen []string
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] + " " + r.URL.Query().Get("fieldSelector")
	if !slices.Contains(a.seen, what) {
		a.seen = append(a.seen, what)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

func (a *asked) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.seen))
}

// There is one informer for each kind and selector. It asks only for what it selects, and starts, is listed and ends with the others.
func TestSelecting(t *testing.T) {
	server := &asked{}
	f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api", QPS: -1, Transport: server}, sample)), 0)
	tokens, named := fields.OneTermEqualSelector("type", "kubernetes.io/token"), fields.OneTermEqualSelector("metadata.name", "ca.crt")
	one := must(Objects[*corev1.Secret](Selecting(f, tokens)))
	again := must(IndexedObjects(Selecting(f, tokens), "team", func(s *corev1.Secret) []string { return []string{s.Labels["team"]} }))
	other := must(Objects[*corev1.Secret](Selecting(f, named)))
	must(Objects[*corev1.ConfigMap](Selecting(f, named)))
	nodes := must(Objects[*corev1.Node](Selecting(f, fields.Everything())))
	if one.Informer().GetIndexer() != again.Informer().GetIndexer() || one.Informer().GetIndexer() == other.Informer().GetIndexer() ||
		nodes.Informer().GetIndexer() != must(Objects[*corev1.Node](f)).Informer().GetIndexer() {
		t.Error("not one informer for each kind and selector")
	}
	f.StartWithContext(t.Context())
	want := []string{"configmaps metadata.name=ca.crt", "nodes ", "secrets metadata.name=ca.crt", "secrets type=kubernetes.io/token"}
	for deadline := time.Now().Add(time.Minute); !slices.Equal(server.all(), want); time.Sleep(time.Millisecond) {
		if len(server.all()) > len(want) || time.Now().After(deadline) {
			t.Fatalf("it asks for %q", server.all())
		}
	}
	var names []string
	for _, c := range CacheStatuses(f) {
		names = append(names, c.Name+" of "+c.Resource)
	}
	if got, want := strings.Join(names, ", "), "configmaps-metadata.name-ca.crt of configmaps, nodes of nodes, "+
		"secrets-metadata.name-ca.crt of secrets, secrets-type-kubernetes.io-token of secrets"; got != want {
		t.Errorf("caches: %s", got)
	}
}

// A cache with an index of the caller's choice finds objects by it.
func TestIndexedObjects(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	byNode := must(IndexedObjects(f, "node name", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }))
	for _, p := range []*corev1.Pod{small("shop", "a", "", "n1"), small("shop", "b", "", "n2"), small("bank", "c", "", "n1")} {
		must[any](nil, byNode.Informer().GetIndexer().Add(p))
	}
	if got := names(byNode.By("n1")); got != "a c" {
		t.Errorf("on n1: %s", got)
	}
}

// Of several informers of a resource one has a name in metrics. client-go would log an error about a second one.
func TestNamesOfInformersAreUnique(t *testing.T) {
	name := must(cache.NewInformerName("test-of-names"))
	defer name.Release()
	f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)), 0, informers.WithInformerName(name))
	secrets, configMaps := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")
	selected := Selecting(f, fields.OneTermEqualSelector("type", "x"))
	for i, c := range []struct {
		factory  *Factory
		resource schema.GroupVersionResource
		want     bool
	}{{selected, secrets, true}, {f, secrets, false}, {f, configMaps, true}} {
		if got := c.factory.identity(c.resource); got.Reserved() != c.want || got.GroupVersionResource() != c.resource {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
