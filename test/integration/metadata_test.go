package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// GC-8, GC-9, GC-15 and the flaw GC-64: of two custom resources one cannot be listed, because its objects have to be converted and the
// webhook for that is dead. All other resources of the server are synced nevertheless, and the wait for all ends when it may last no
// longer. A custom resource that vanishes has its watch ended; when it is back, so is its watch. The garbage collector of the shared
// manager collects its dependents before and after.
func TestMetadataInformers(t *testing.T) {
	c := share(t).Cluster // no other test of those that run in parallel may define or delete custom resources
	m, f := newMetadataBench(t, c), newFamily(t, c)
	m.define(healthy, "v1")
	m.define(broken, "v1", "v2")
	m.make(healthy, "first")
	m.make(schema.GroupVersionResource{Group: broken.Group, Version: "v1", Resource: broken.Resource}, "old")
	m.breakConversion()

	config := rest.CopyConfig(c.RESTConfig)
	config.Wrap(m.open.wrap)
	clients := must(client.NewClients(config, must(client.NewMapper(config)), client.Options{}))
	all := metadata.New(must(clients.Metadata()))
	defer all.Shutdown()
	told := &knownNames{of: map[string]bool{}}
	sub := all.Subscribe(told)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { sub.Follow(ctx, deletable(clients.Mapper()), time.Second, nil) })

	cluster.Eventually(t, patience, "both custom resources are wanted, among others", func() error {
		wanted := sub.Resources()
		if len(wanted) < 30 || !slices.Contains(wanted, healthy) || !slices.Contains(wanted, broken) {
			return fmt.Errorf("wanted are %v", wanted)
		}
		return nil
	})
	others := slices.DeleteFunc(sub.Resources(), func(r schema.GroupVersionResource) bool { return r == broken })
	if unsynced := sub.WaitForSync(ctx, patience, others...); unsynced != nil {
		t.Fatalf("not synced: %v", unsynced)
	}
	if unsynced := sub.WaitForSync(ctx, time.Second); !slices.Equal(unsynced, []schema.GroupVersionResource{broken}) {
		t.Errorf("not synced: %v, want the one whose webhook is dead", unsynced)
	}
	// first, client-go asks a server ten times that says it is not ready
	cluster.Eventually(t, 2*patience, "the reason is known", func() error {
		if state := m.state(all, broken); state.Synced || state.Err == nil || !strings.Contains(state.Err.Error(), "conversion webhook") {
			return fmt.Errorf("the state is %+v", state)
		}
		return nil
	})
	m.eventually("the healthy one is watched, its object known",
		func() error { return errors.Join(told.has("first"), m.open.want(healthy, 1)) })

	first := f.thing(m, "owner")
	f.waitFor("of-owner")
	m.eventually("the garbage collector watches the owner", func() error { return graphHas(t, shared.port, first) })

	m.undefine(healthy)
	f.waitFor()
	m.eventually("the watch has ended of what has vanished, its object is known to be gone", func() error {
		if slices.Contains(sub.Resources(), healthy) {
			return errors.New("it is wanted")
		}
		return errors.Join(m.open.want(healthy, 0), told.hasNot("first"))
	})
	m.define(healthy, "v1")
	m.make(healthy, "second")
	m.eventually("it is back", func() error { return errors.Join(told.has("second"), told.hasNot("first"), m.open.want(healthy, 1)) })
	f.thing(m, "next-owner")
	f.waitFor("of-next-owner")
	if err := m.dynamic.Resource(healthy).Delete(t.Context(), "next-owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 2*patience, "the dependent of what came back is gone", func() error {
		if f.get("of-next-owner") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	if sub.Synced(broken) {
		t.Error("the broken one is synced")
	}
	m.convert("None", nil)
	m.eventually("the broken one is mended", func() error { return told.has("old") })
	if unsynced := sub.WaitForSync(ctx, patience); unsynced != nil {
		t.Errorf("not synced in the end: %v", unsynced)
	}
}

var (
	healthy = schema.GroupVersionResource{Group: "healthy.example.com", Version: "v1", Resource: "healthythings"}
	broken  = schema.GroupVersionResource{Group: "broken.example.com", Version: "v2", Resource: "brokenthings"}
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// deletable discovers what a garbage collector watches.
func deletable(mapper *client.Mapper) metadata.DiscoverFunc {
	return func(ctx context.Context) (all []schema.GroupVersionResource, err error) {
		found, err := mapper.PreferredResources(ctx, "list", "watch", "delete")
		for _, m := range found {
			all = append(all, m.GroupVersionResource())
		}
		return all, err
	}
}

type metadataBench struct {
	*testing.T
	*cluster.Cluster
	dynamic dynamic.Interface
	open    *openWatches
}

func (m *metadataBench) eventually(what string, check func() error) {
	m.Helper()
	cluster.Eventually(m.T, patience, what, check)
}

func newMetadataBench(t *testing.T, c *cluster.Cluster) *metadataBench {
	return &metadataBench{T: t, Cluster: c, dynamic: must(dynamic.NewForConfig(c.RESTConfig)), open: &openWatches{byPath: map[string]int{}}}
}

// define creates a custom resource. It is stored in the first version, and the last is preferred.
func (m *metadataBench) define(r schema.GroupVersionResource, versions ...string) {
	m.Helper()
	kind := strings.TrimSuffix(r.Resource, "s")
	spec := map[string]any{
		"group": r.Group, "scope": "Cluster",
		"names": map[string]any{"plural": r.Resource, "singular": kind, "kind": strings.ToUpper(kind[:1]) + kind[1:]},
	}
	all := []any{}
	for n, v := range versions {
		all = append(all, map[string]any{"name": v, "served": true, "storage": n == 0, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}})
	}
	spec["versions"] = all
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.GroupResource().String()}, "spec": spec}}
	must(m.dynamic.Resource(crds).Create(m.Context(), crd, metav1.CreateOptions{}))
	m.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // t's own context is over
		defer cancel()
		err := m.dynamic.Resource(crds).Delete(ctx, r.GroupResource().String(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			m.Error(err)
		}
	})
}

func (m *metadataBench) undefine(r schema.GroupVersionResource) {
	m.Helper()
	name := r.GroupResource().String()
	if err := m.dynamic.Resource(crds).Delete(m.Context(), name, metav1.DeleteOptions{}); err != nil {
		m.Fatal(err)
	}
	m.eventually("the definition is gone", func() error {
		if _, err := m.dynamic.Resource(crds).Get(m.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}

// make creates an object, as soon as its kind is served.
func (m *metadataBench) make(r schema.GroupVersionResource, name string) {
	m.Helper()
	kind := strings.TrimSuffix(r.Resource, "s")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(),
		"kind": strings.ToUpper(kind[:1]) + kind[1:], "metadata": map[string]any{"name": name}}}
	m.eventually(name+" is created", func() error {
		_, err := m.dynamic.Resource(r).Create(m.Context(), o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// breakConversion has the objects converted to another version by a webhook that nobody serves.
func (m *metadataBench) breakConversion() {
	m.Helper()
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { m.convert("None", nil) }) // or the definition could not be deleted
	m.convert("Webhook",
		map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://" + address}})
	m.eventually("lists fail", func() error {
		path := "/apis/" + broken.GroupVersion().String() + "/" + broken.Resource
		if err := m.Client.Discovery().RESTClient().Get().AbsPath(path).MaxRetries(0).Do(m.Context()).Error(); err == nil {
			return errors.New("one did not")
		}
		return nil
	})
}

// convert sets the conversion of the broken resource.
func (m *metadataBench) convert(strategy string, webhook map[string]any) {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conversion := map[string]any{"strategy": strategy, "webhook": webhook} // null deletes
	document := must(json.Marshal(map[string]any{"spec": map[string]any{"conversion": conversion}}))
	if _, err := m.dynamic.Resource(crds).Patch(ctx, broken.GroupResource().String(), types.MergePatchType, document,
		metav1.PatchOptions{}); err != nil {
		m.Error(err)
	}
}

func (m *metadataBench) state(all *metadata.Informers, r schema.GroupVersionResource) metadata.State {
	m.Helper()
	for _, s := range all.States() {
		if s.Resource == r {
			return s
		}
	}
	m.Fatalf("%s has no state", r)
	return metadata.State{}
}

// knownNames are those of the objects that are known.
type knownNames struct {
	sync.Mutex
	of map[string]bool
}

func (n *knownNames) OnUpdate(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	n.Lock()
	defer n.Unlock()
	n.of[o.Name] = true
}

func (n *knownNames) OnDelete(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	n.Lock()
	defer n.Unlock()
	delete(n.of, o.Name)
}

func (n *knownNames) has(name string) error {
	n.Lock()
	defer n.Unlock()
	if !n.of[name] {
		return fmt.Errorf("%s is not known", name)
	}
	return nil
}

func (n *knownNames) hasNot(name string) error {
	if n.has(name) == nil {
		return fmt.Errorf("%s is known", name)
	}
	return nil
}

// openWatches counts watches by their path.
type openWatches struct {
	sync.Mutex
	byPath map[string]int
}

func (w *openWatches) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" {
			w.add(r.URL.Path, 1)
			resp.Body = &watched{ReadCloser: resp.Body, ended: sync.OnceFunc(func() { w.add(r.URL.Path, -1) })}
		}
		return resp, err
	})
}

func (w *openWatches) add(path string, n int) {
	w.Lock()
	defer w.Unlock()
	w.byPath[path] += n
}

func (w *openWatches) want(r schema.GroupVersionResource, n int) error {
	w.Lock()
	defer w.Unlock()
	if got := w.byPath["/apis/"+r.Group+"/"+r.Version+"/"+r.Resource]; got != n {
		return fmt.Errorf("%d watches of %s are open, want %d", got, r.Resource, n)
	}
	return nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type watched struct {
	io.ReadCloser
	ended func()
}

func (w *watched) Close() error {
	w.ended()
	return w.ReadCloser.Close()
}
