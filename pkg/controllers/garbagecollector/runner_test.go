package garbagecollector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// bench is a runner and its server. The test plays the watches.
type bench struct {
	*testing.T
	*runner
	server *reads
	events *record.FakeRecorder
}

// reads counts the live reads, and can make them fail.
type reads struct {
	*clienttest.Server
	hanging string // a kind of which no read is answered
	mu      sync.Mutex
	asked   []string
	fail    map[string]error // by name, or path
}

// fails has the server answer reads of a name or path with an error; nil: as before.
func (s *reads) fails(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[name] = err
}

// Get takes a millisecond, so that what a test shows at one time is known before the first read is answered.
func (s *reads) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	s.asked = append(s.asked, m.Kind+" "+key.Name)
	s.mu.Unlock()
	if m.Kind == s.hanging {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := s.failure(key.Name); err != nil {
		return err
	}
	return s.Server.Get(ctx, m, key, into)
}

func (s *reads) GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if err := s.failure(path); err != nil {
		return nil, err
	}
	return s.Server.GetRaw(ctx, path, query)
}

func (s *reads) failure(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail[name]
}

// live returns what was read.
func (s *reads) live() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// builtIns are the built-in kinds and others.
type builtIns []client.Mapping

func (b builtIns) Mapping(_ context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	for _, m := range b {
		if m.GroupVersionKind == kind {
			return m, nil
		}
	}
	m, ok := client.BuiltIn(kind)
	if !ok {
		return m, errors.New("discovery fails")
	}
	return m, nil
}

func (b builtIns) MappingFor(ctx context.Context, o runtime.Object) (client.Mapping, error) {
	kind, err := client.KindOf(o)
	if err != nil {
		return client.Mapping{}, err
	}
	return b.Mapping(ctx, kind)
}

// run runs the test in a bubble, with a runner to which all is known that is watched.
func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, server: &reads{Server: clienttest.NewServer(), fail: map[string]error{}}, events: record.NewFakeRecorder(100)}
		b.runner = &runner{client: b.server, mapper: builtIns{}, events: b.events, records: explain.NewRecords(nil), workers: 4,
			brake: brake.New(brake.Budget{})}
		b.shared = reconcile.Shared{Mapper: builtIns{}, Tracker: freshness.NewTracker()}
		b.access = reconcile.Access{Client: b.server}
		b.asks(hangs{})
		b.begin()
		b.term.kinds[configMaps] = configMapKind
		b.term.watched = sets.New(configMaps)
		b.complete()
		clienttest.Run(t, func(ctx context.Context) error { b.work(ctx); return nil }, func() { test(b) })
	})
}

// store stores an object.
func (b *bench) store(o plan.Object) *metav1.PartialObjectMetadata {
	b.Helper()
	made, err := b.server.Put(o)
	if err != nil {
		b.Fatal(err)
	}
	return meta.AsPartialObjectMetadata(made)
}

// put stores a ConfigMap that ConfigMaps own.
func (b *bench) put(name string, owners ...string) *metav1.PartialObjectMetadata {
	b.Helper()
	return b.putOwned(name, configMapKind, owners...)
}

// putOwned stores a ConfigMap with owners of a kind.
func (b *bench) putOwned(name string, kind *resourceKind, owners ...string) *metav1.PartialObjectMetadata {
	b.Helper()
	return b.store(&corev1.ConfigMap{ObjectMeta: object(name, ownedBy(kind, owners...)).ObjectMeta})
}

// seeDependents puts ConfigMaps that a ConfigMap owns, dependent-0 and so on, and shows them.
func (b *bench) seeDependents(n int, owner string) {
	b.Helper()
	for i := range n {
		b.see(b.put(fmt.Sprint("dependent-", i), owner))
	}
}

// deletions counts those of ConfigMaps dependent-0 and so on.
func (b *bench) deletions() int { return b.server.CountWrites("delete ConfigMap dependent-") }

// unwritten expects that nothing has been written.
func (b *bench) unwritten() {
	b.Helper()
	if log := b.server.Log(); len(log) > 0 {
		b.Errorf("written: %v", log)
	}
}

func (b *bench) see(all ...*metav1.PartialObjectMetadata) {
	for _, o := range all {
		b.OnUpdate(configMaps, o)
	}
}

// GC-39, GC-67: an owner is gone, and each of its dependents costs one request, within a second.
func TestGC62OneRequestForEachDependent(t *testing.T) {
	run(t, func(b *bench) {
		owner := b.put("owner")
		b.see(owner)
		b.seeDependents(50, "owner")
		b.OnDelete(configMaps, owner)
		time.Sleep(time.Second)
		if n := b.deletions(); n != 50 || len(b.server.Log()) != 50 || len(b.server.live()) != 0 {
			b.Errorf("%d deletions, %d writes, reads %v", n, len(b.server.Log()), b.server.live())
		}
		for _, w := range b.server.Writes() {
			if p := w.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil ||
				*w.DeleteOptions.PropagationPolicy != metav1.DeletePropagationBackground {
				b.Fatalf("%+v", w.DeleteOptions)
			}
		}
	})
}

// GC-40: the version that was seen is outdated, and no watch shows a newer one: the object is read, and deleted as it is now.
func TestDeletionAfterAConflict(t *testing.T) {
	run(t, func(b *bench) {
		b.see(b.put("web", "absent"))
		stale := b.put("late", "absent")
		b.put("late", "absent")
		b.see(stale)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"refused delete ConfigMap late", "delete ConfigMap web"}, sorted(b.server.Log())); diff != "" {
			b.Errorf("writes (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		if n := b.server.CountWrites("delete ConfigMap late"); n != 1 {
			b.Errorf("written: %v", b.server.Log())
		}
	})
}

// GC-30, GC-50: a change whose object is gone leads to a live read, and the object is forgotten, whatever the watch shows.
func TestChangeOfWhatIsGone(t *testing.T) {
	for _, finalizer := range []string{orphan, foreground} {
		run(t, func(b *bench) {
			b.see(object("owner", deleted(finalizer)), b.put("dependent", "owner"))
			time.Sleep(time.Second)
			if diff := cmp.Diff([]string{"ConfigMap owner"}, b.server.live()); diff != "" {
				b.Errorf("%s: reads (-want +got):\n%s", finalizer, diff)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.term.graph.nodes["owner"] != nil || b.term.orphan.Statuses()[0].Failing+b.term.remove.Statuses()[0].Failing > 0 {
				b.Errorf("%s: it is not forgotten", finalizer)
			}
		})
	}
}

// GC-6, GC-7: all that discovery has is watched, but for events; kinds without namespaces are known from then on.
func TestDiscover(t *testing.T) {
	r := &runner{records: explain.NewRecords(nil), workers: 1,
		resources: func(_ context.Context, verbs ...string) ([]client.Mapping, error) {
			if got := strings.Join(verbs, " "); got != "delete list watch" {
				t.Errorf("verbs are %s", got)
			}
			failed := errors.New("some groups fail")
			return []client.Mapping{
				{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Event"}, Resource: "events", Namespaced: true},
				{GroupVersionKind: schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, Resource: "events",
					Namespaced: true},
				{GroupVersionKind: nodeKind.GroupVersionKind, Resource: "nodes"},
				{GroupVersionKind: widgetKind.GroupVersionKind, Resource: "events", Namespaced: true},
			}, failed
		}}
	r.begin()
	found, err := r.discover(t.Context())
	want := []schema.GroupVersionResource{{Version: "v1", Resource: "nodes"}, {Group: "example.com", Version: "v1", Resource: "events"}}
	if diff := cmp.Diff(want, found); diff != "" || err == nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if !r.term.graph.clusterScoped[nodeKind.GroupKind()] || r.term.graph.clusterScoped[widgetKind.GroupKind()] ||
		*r.term.kinds[want[1]] != (resourceKind{widgetKind.GroupVersionKind, "events"}) {
		t.Errorf("%v %v", r.term.graph.clusterScoped, r.term.kinds)
	}
}

// GC-6, GC-11: a custom resource is deleted and defined anew, with another kind and with namespaces.
func TestResourceIsDefinedAnew(t *testing.T) {
	m := client.Mapping{GroupVersionKind: widgetKind.GroupVersionKind, Resource: "widgets"}
	r := &runner{records: explain.NewRecords(nil), workers: 1, resources: func(context.Context, ...string) ([]client.Mapping, error) {
		return []client.Mapping{m}, nil
	}}
	r.begin()
	r.term.graph.complete = true
	discover := func() {
		if _, err := r.discover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	discover()
	gadgetKind := &resourceKind{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, "widgets"}
	r.OnUpdate(m.GroupVersionResource(), object("owner")) // before the next discovery
	r.OnUpdate(m.GroupVersionResource(), object("dependent", ownedBy(gadgetKind, "owner")))
	m.Kind, m.Namespaced = "Gadget", true
	discover()
	if kind := *r.term.kinds[m.GroupVersionResource()]; kind != *gadgetKind || *r.term.graph.nodes["owner"].kind != *gadgetKind {
		t.Errorf("it is taken for %s, and its object for %s", kind, r.term.graph.nodes["owner"].kind)
	}
	if s := r.term.graph.referenceState(r.term.graph.nodes["dependent"], ref(gadgetKind, "owner")); s != ownerExists {
		t.Errorf("its owner is %v", s)
	}
	m.GroupVersionKind = widgetKind.GroupVersionKind
	discover()
	if r.term.graph.clusterScoped[widgetKind.GroupKind()] {
		t.Error("it is taken for one without namespaces")
	}
}

// appear has discovery find Secrets, too.
func (b *bench) appear() {
	b.resources = func(context.Context, ...string) (all []client.Mapping, _ error) {
		for _, kind := range []string{"ConfigMap", "Secret"} {
			m, _ := client.BuiltIn(corev1.SchemeGroupVersion.WithKind(kind))
			all = append(all, m)
		}
		return all, nil
	}
}

// putSecret stores a Secret, which ConfigMaps may own.
func (b *bench) putSecret(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	b.Helper()
	return b.store(&corev1.Secret{ObjectMeta: o.ObjectMeta})
}

var (
	secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	secretKind      = &resourceKind{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "secrets"}
	configMapKind   = &resourceKind{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps"}
)

// GC-15, GC-44, GC-47: a kind appears while the collector runs. The first object that its list shows waits for its dependents; it is not
// released before those are known that come later in the list.
func TestOwnersOfAKindThatAppears(t *testing.T) {
	for finalizer, want := range map[string][]string{
		orphan:     {"patch Secret dependent", "patch Secret owner"},
		foreground: {"delete Secret dependent"},
	} {
		t.Run(finalizer, func(t *testing.T) {
			run(t, func(b *bench) {
				b.appear()
				if _, err := b.discover(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.OnUpdate(secretsResource, b.putSecret(object("owner", deleted(finalizer))))
				time.Sleep(time.Second)
				b.unwritten() // before the kind is listed
				b.OnUpdate(secretsResource, b.putSecret(object("dependent", blocking(secretKind, "owner"))))
				b.listed(secretsResource, true)
				time.Sleep(time.Second)
				if diff := cmp.Diff(want, b.server.Log()); diff != "" {
					b.Errorf("written (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// asks has the watches, and lists of namespaces, ask the server.
func (b *bench) asks(server http.RoundTripper) {
	client, err := metadataclient.NewForConfig(&rest.Config{Host: "http://api", Transport: server})
	if err != nil {
		b.Fatal(err)
	}
	b.metadata = metadata.New(client)
}

// follow has the collector follow discovery, with watches that ask the server.
func (b *bench) follow(server http.RoundTripper) (end func()) {
	b.syncErrors = newSyncErrors()
	b.asks(server)
	sub := b.metadata.Subscribe(b.runner)
	b.health.begin(sub, nil)
	ctx, cancel := context.WithCancel(b.Context())
	go sub.Follow(ctx, b.discover, discoverEvery, func(ctx context.Context, err error) { b.updated(ctx, sub, err) })
	synctest.Wait()
	return func() {
		cancel()
		sub.Close()
		b.metadata.Shutdown()
	}
}

// broken is an API server on which Secrets cannot be listed but in one namespace, of which it answers what is given; nil: nor there. Of
// other kinds there are none.
type broken struct {
	inShop []metav1.PartialObjectMetadata
	hangs  bool // instead of an error there is no answer
}

func (s broken) RoundTrip(r *http.Request) (*http.Response, error) {
	code, answer := http.StatusOK, any(metadataList(nil))
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "": // lists are to be asked for
		code, answer = http.StatusBadRequest, metav1.Status{Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest}
	case r.URL.Query().Get("watch") != "", s.hangs && strings.HasSuffix(r.URL.Path, "/secrets"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	case strings.HasSuffix(r.URL.Path, "/namespaces/shop/secrets") && s.inShop != nil:
		answer = metadataList(s.inShop)
	case strings.HasSuffix(r.URL.Path, "/secrets"):
		code, answer = http.StatusInternalServerError,
			metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "conversion webhook failed"}
	}
	return inJSON(code, answer)
}

func inJSON(code int, answer any) (*http.Response, error) {
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body))}, err
}

// metadataList is the answer to a list of metadata.
func metadataList(items []metav1.PartialObjectMetadata) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: items}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	return list
}

// GC-13, GC-15: a kind cannot be listed, when the collector begins or later. Owners go on in a second on which no object of that kind
// depends, as a list of their namespace shows. Those of which that is not known wait for 30 seconds. Nothing else waits.
func TestOneKindCannotBeListed(t *testing.T) {
	item := func(owner string) []metav1.PartialObjectMetadata {
		return []metav1.PartialObjectMetadata{*object("secret", blocking(secretKind, owner))}
	}
	for _, c := range []struct {
		name   string
		server http.RoundTripper
		waits  bool
	}{
		{"no object of the kind depends on the owner", broken{inShop: item("another")}, false},
		{"the namespace has none", broken{inShop: []metav1.PartialObjectMetadata{}}, false},
		{"one of the kind depends on the owner", broken{inShop: item("owner")}, true},
		{"the namespace cannot be listed either", broken{}, true},
		{"the server of that kind does not answer", broken{hangs: true}, true},
	} {
		for _, finalizer := range []string{orphan, foreground} {
			for _, starts := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, at the start: %t", c.name, finalizer, starts), func(t *testing.T) {
					run(t, func(b *bench) {
						b.appear()
						if starts {
							b.term.watched, b.runner.term.graph.complete = sets.New[schema.GroupVersionResource](), false
						}
						defer b.follow(c.server)()
						owner := b.put("owner")
						owner.DeletionTimestamp, owner.Finalizers = ptr.To(metav1.Now()), []string{finalizer}
						b.see(owner, b.put("garbage", "absent"), b.put("dependent", "owner"))
						time.Sleep(time.Second)
						if all := b.Unlisted(); len(all) > 0 {
							b.Errorf("REG-103: fails a check already: %v", all)
						}
						released := func() int { return b.server.CountWrites("patch ConfigMap owner") }
						if n := b.server.CountWrites("delete ConfigMap garbage"); n != 1 {
							b.Errorf("written at once: %v", b.server.Log())
						}
						if got := released() == 0; got != c.waits {
							b.Errorf("after a second it waits: %t; written: %v", got, b.server.Log())
						}
						time.Sleep(syncTimeout - 2*time.Second)
						if got := released() == 0; got != c.waits {
							b.Errorf("before 30 seconds it waits: %t; written: %v", got, b.server.Log())
						}
						time.Sleep(2 * time.Second)
						if n := released(); n != 1 {
							b.Errorf("written after 30 seconds: %v", b.server.Log())
						}
						time.Sleep(time.Minute)
						if all := b.Unlisted(); !slices.Equal(all, []string{"secrets"}) {
							b.Errorf("REG-103: a check fails for %v", all)
						}
						b.mu.Lock()
						defer b.mu.Unlock()
						if !b.term.graph.settled() || len(b.term.asking)+len(b.term.graph.cleared) > 0 {
							b.Error("the next discovery waits for it again")
						}
					})
				})
			}
		}
	}
}

// hangs is an API server that does not answer.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// GC-9, GC-11, GC-44: a resource leaves discovery, and nobody learns what becomes of its objects. After two discoveries without it they are
// forgotten: an owner in the foreground does not wait for them, and owners among them are looked up live. A discovery that fails does not
// count, and dependents that are to be orphaned stay known.
func TestResourceThatVanishes(t *testing.T) {
	run(t, func(b *bench) {
		b.term.kinds[secretsResource] = secretKind
		b.term.watched.Insert(secretsResource)
		sub := metadata.New(nil).Subscribe(b.runner)
		without := func(err error) {
			b.mu.Lock()
			b.term.watched = sets.New(configMaps)
			vanished := b.term.forgetVanished(err)
			b.mu.Unlock()
			for _, resource := range vanished {
				sub.Forget(resource)
			}
		}
		for _, finalizer := range []string{foreground, orphan} {
			owner := b.put(finalizer)
			owner.DeletionTimestamp, owner.Finalizers = ptr.To(metav1.Now()), []string{finalizer}
			dependent := object("of-"+finalizer, deleted("example.com/hold"))
			dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: finalizer, UID: owner.UID,
				BlockOwnerDeletion: ptr.To(true)}}
			b.mu.Lock()
			b.term.graph.listing.Insert(configMaps) // so that no owner is let go before its dependents are known
			b.mu.Unlock()
			b.see(owner) // first, or it may be read live
			b.OnUpdate(secretsResource, dependent)
		}
		b.OnUpdate(secretsResource, object("secret"))
		web := b.put("web")
		web.OwnerReferences = []metav1.OwnerReference{ref(secretKind, "secret")}
		b.see(web)
		partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: errors.New("down")}}
		for _, err := range []error{nil, errors.New("down"), partial} {
			without(err)
			time.Sleep(time.Second)
			if b.term.graph.nodes["secret"] == nil || b.term.graph.nodes["of-"+foreground] == nil {
				t.Fatalf("forgotten after a discovery that has %v", err)
			}
		}
		without(nil)
		b.mu.Lock()
		if b.term.graph.nodes["secret"] != nil || b.term.graph.nodes["of-"+foreground] != nil || b.term.graph.nodes["of-"+orphan] == nil {
			t.Errorf("known are %v", b.term.graph.nodes)
		}
		b.term.graph.listing.Clear()
		b.runner.term.enqueue(b.term.graph.nodes[foreground], 0)
		b.mu.Unlock()
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"delete ConfigMap web", "patch ConfigMap " + foreground},
			slices.Sorted(slices.Values(b.server.Log()))); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Secret secret"}, b.server.live()); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	})
}

// GC-10, GC-55: discoveries that find nothing are counted; GC-9: those that find something are not.
func TestSyncErrorsAreCounted(t *testing.T) {
	r := &runner{records: explain.NewRecords(nil), workers: 1, syncErrors: newSyncErrors()}
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(r.syncErrors)
	r.begin()
	sub := metadata.New(nil).Subscribe(r)
	for _, c := range []struct {
		err  error
		want float64
	}{{nil, 0}, {errors.New("nothing"), 1}, {&discovery.ErrGroupDiscoveryFailed{}, 1}} {
		r.updated(t.Context(), sub, c.err)
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%d metrics, %v", len(families), err)
		}
		name, got := families[0].GetName(), families[0].GetMetric()[0].GetCounter().GetValue()
		if name != "garbagecollector_controller_resources_sync_error_total" || got != c.want {
			t.Errorf("after %v: %s is %v, want %v", c.err, name, got, c.want)
		}
	}
	if r.term.graph.complete {
		t.Error("the graph is taken for complete, although nothing is watched")
	}
}

// An object that was seen in one version of its kind, and not in the next one, is in doubt.
func TestAnotherVersionIsPreferred(t *testing.T) {
	run(t, func(b *bench) {
		b.server.hanging = "Widget"
		older := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		newer := schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}
		b.mu.Lock()
		b.mapper = builtIns{{GroupVersionKind: widgetKind.GroupVersionKind, Resource: "widgets", Namespaced: true}}
		b.term.kinds[older], b.term.kinds[newer] = widgetKind,
			&resourceKind{schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, "widgets"}
		b.mu.Unlock()
		known := func(name types.UID) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.term.graph.nodes[name] != nil
		}
		b.OnUpdate(older, object("stays"))
		b.OnUpdate(older, object("gone"))
		b.OnUpdate(older, object("dependent", ownedBy(widgetKind, "gone")))
		b.OnUpdate(newer, object("stays"))
		b.OnUpdate(newer, object("dependent", ownedBy(widgetKind, "gone")))
		b.listed(newer, false)
		if !known("gone") {
			t.Error("forgotten before the new version was listed")
		}
		b.listed(newer, true)
		time.Sleep(time.Second)
		if known("gone") || !known("stays") {
			t.Error("not what was listed is known")
		}
		if diff := cmp.Diff([]string{"Widget gone"}, b.server.live()); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		b.unwritten()
	})
}

// The dependents of one owner do not keep those of another one waiting.
func TestDependentsTakeTurns(t *testing.T) {
	run(t, func(b *bench) {
		const many, few, cost = 1000, 8, 10 * time.Millisecond
		b.server.BeforeWrite(func(clienttest.Write) error {
			time.Sleep(cost)
			return nil
		})
		owners := []*metav1.PartialObjectMetadata{b.put("web"), b.put("db")}
		b.see(owners...)
		b.seeDependents(many, "web")
		for i := range few {
			b.see(b.put(fmt.Sprint("db-", i), "db"))
		}
		b.OnDelete(configMaps, owners[0])
		time.Sleep(cost / 2)
		b.OnDelete(configMaps, owners[1])
		time.Sleep(2*few*cost/4 + 2*cost) // there are four workers
		if n, others := b.server.CountWrites("delete ConfigMap db-"), b.deletions(); n != few || others > 2*few {
			t.Errorf("%d of %d are deleted, and %d others", n, few, others)
		}
	})
}

func sorted(lines []string) []string {
	if len(lines) == 2 && lines[0] < lines[1] {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return lines
}
