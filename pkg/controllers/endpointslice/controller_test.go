package endpointslice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func TestEPS3Identity(t *testing.T) { // EPS-1..3, EPS-10..12
	c := New(Options{})
	if c.Name != "endpointslice-controller" || c.Alias != "endpointslice" || c.Account != "endpointslice-controller" || c.OffByDefault {
		t.Errorf("%+v", c)
	}
	if o := c.Flags.(*Options); *o != (Options{Workers: 5, Max: 100}) {
		t.Errorf("%+v", o)
	}
}

func TestFlags(t *testing.T) { // EPS-10..12
	for _, c := range []struct {
		args []string
		want int // errors
	}{
		{[]string{"--concurrent-service-endpoint-syncs=50", "--max-endpoints-per-slice=1000", "--endpointslice-updates-batch-period=1s"},
			0},
		{[]string{"--concurrent-service-endpoint-syncs=0", "--max-endpoints-per-slice=0", "--endpointslice-updates-batch-period=-1s"}, 3},
		{[]string{"--concurrent-service-endpoint-syncs=51", "--max-endpoints-per-slice=1001"}, 2},
	} {
		o := New(Options{}).Flags.(*Options)
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if errs := o.Validate(); len(errs) != c.want {
			t.Errorf("%v: %v", c.args, errs)
		}
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// newCaches returns caches that hold the objects.
func newCaches(t failer, objects ...plan.Object) *caches {
	t.Helper()
	return newCachesOf(t, fake.NewClientset(), objects...)
}

// newRealCaches returns caches that keep objects as those of the manager do.
func newRealCaches(t failer, objects ...plan.Object) *caches {
	t.Helper()
	projected, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatalf("%v", err)
	}
	client, err := listwatch.NewClient(&rest.Config{Host: "http://api"}, projected.(*projection.Projection))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return newCachesOf(t, client, objects...)
}

func newCachesOf(t failer, client kubernetes.Interface, objects ...plan.Object) *caches {
	t.Helper()
	f := informers.NewFactory(client, 0)
	services, err1 := informers.Services(f)
	pods, err2 := informers.PodsByLabels(f)
	onNodes, err3 := informers.PodsByNode(f)
	nodes, err4 := informers.Nodes(f)
	stored, err5 := informers.EndpointSlices(f)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatalf("%v", err)
	}
	k := &caches{services: services, pods: pods, onNodes: onNodes, nodes: nodes, slices: stored, most: 100, large: largeService}
	for _, o := range objects {
		k.put(t, o)
	}
	return k
}

func (k *caches) put(t failer, o plan.Object) {
	t.Helper()
	if err := k.storeOf(o).Add(o); err != nil {
		t.Fatalf("%v", err)
	}
}

func (k *caches) remove(t failer, o plan.Object) {
	t.Helper()
	if err := k.storeOf(o).Delete(o); err != nil {
		t.Fatalf("%v", err)
	}
}

func (k *caches) storeOf(o plan.Object) cache.Store {
	switch o.(type) {
	case *corev1.Service:
		return k.services.Informer().GetIndexer()
	case *corev1.Node:
		return k.nodes.Informer().GetIndexer()
	case *discoveryv1.EndpointSlice:
		return k.slices.Informer().GetIndexer()
	}
	return k.pods.Informer().GetIndexer()
}

// show lets the caches have slices as they are after a change.
func (k *caches) show(t failer, before, after []*discoveryv1.EndpointSlice) {
	t.Helper()
	for _, o := range before {
		if !slices.ContainsFunc(after, func(a *discoveryv1.EndpointSlice) bool { return a.Name == o.Name }) {
			k.remove(t, o)
		}
	}
	for _, o := range after {
		if !slices.Contains(before, o) {
			k.put(t, o)
		}
	}
}

func request() reconcile.Request[memory] {
	return reconcile.Request[memory]{Key: webKey, Now: now, Reader: clienttest.NewServer()}
}

// A row is a sentence: a node that was like this and is like that enqueues these services.
func TestEnqueuedByNode(t *testing.T) { // EPS-18, EPS-80
	hinted := web(auto)
	hinted.Name, hinted.Spec.Selector = "hinted", map[string]string{"app": "x"}
	k := newCaches(t, web(), hinted, pod("a", "10.0.0.1"))
	down := node("n1", "a", "1")
	down.Status.Conditions[0].Status = corev1.ConditionFalse
	for _, c := range []struct {
		name          string
		before, after *corev1.Node
		want          []string
	}{
		{"a new node", nil, node("n1", "a", "1"), []string{"hinted", "web"}},
		{"EPS-18 a node that has gone", node("n1", "a", "1"), nil, []string{"hinted"}},
		{"a node without our pods", nil, node("n2", "a", "1"), []string{"hinted"}},
		{"another zone", node("n1", "a", "1"), node("n1", "b", "1"), []string{"hinted", "web"}},
		{"readiness", node("n1", "a", "1"), down, []string{"hinted"}},
		{"more CPU", node("n1", "a", "1"), node("n1", "a", "2"), []string{"hinted"}},
		{"a heartbeat", node("n1", "a", "1"), node("n1", "a", "1000m"), nil},
	} {
		var before, after plan.Object
		if c.before != nil {
			before = c.before
		}
		if c.after != nil {
			after = c.after
		}
		var got []string
		for _, key := range k.enqueuedByNode(before, after) {
			got = append(got, key.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A row is a sentence: a slice that was like this and is like that enqueues these services, at once or after a while.
func TestEnqueuedBySlice(t *testing.T) {
	ours := func(edits ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		o := theirs("web-1", managedBy)
		o.Generation = 1
		for _, edit := range edits {
			edit(o)
		}
		return o
	}
	edited := func(o *discoveryv1.EndpointSlice) { o.Generation, o.ResourceVersion = 2, "2" }
	own := func(o *discoveryv1.EndpointSlice) { o.Generation, o.ResourceVersion = 2, "own" }
	foreign := func(o *discoveryv1.EndpointSlice) { o.Labels[discoveryv1.LabelManagedBy] = "me" }
	other := func(o *discoveryv1.EndpointSlice) { o.Labels[discoveryv1.LabelServiceName] = "other" }
	for _, c := range []struct {
		name          string
		before, after *discoveryv1.EndpointSlice
		soon, later   string
	}{
		{"EPS-15 a new one of ours that we do not know", nil, ours(), "", "web"},
		{"EPS-15 edited by hand", ours(), ours(edited), "", "web"},
		{"EPS-15 our own write", ours(), ours(own), "", ""},
		{"EPS-15 an annotation", ours(), ours(), "", ""},
		{"EPS-16 taken away from us", ours(), ours(edited, foreign), "web", ""},
		{"EPS-16 given to us", ours(foreign), ours(edited), "web", "web"},
		{"EPS-16 another service", ours(), ours(edited, other), "web other", "other"},
		{"EPS-17 deleted", ours(), nil, "web", ""},
		{"somebody else's", ours(foreign), ours(foreign, edited), "", ""},
	} {
		w := endpoints.SliceWatch{Manager: managedBy, Own: func(o plan.Object) bool { return o.GetResourceVersion() == "own" }}
		var before, after plan.Object
		if c.before != nil {
			before = c.before
		}
		if c.after != nil {
			after = c.after
		}
		text := func(keys []plan.Key) (s string) {
			for i, k := range keys {
				if i > 0 {
					s += " "
				}
				s += k.Name
			}
			return s
		}
		if soon, later := text(w.Moved(before, after)), text(w.Edited(before, after)); soon != c.soon || later != c.later {
			t.Errorf("%s: %q at once, %q later", c.name, soon, later)
		}
	}
}

// inCluster runs a test in virtual time, with a server of these objects at which the controller has nothing left to do.
func inCluster(t *testing.T, test func(s *clienttest.Server), objects ...plan.Object) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		for _, o := range objects {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		mapper, err := client.NewMapper(&rest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		from := manager.Context{
			Informers: informers.NewFactory(nil, 0),
			Shared:    reconcile.Shared{Tracker: freshness.NewTracker(), Mapper: mapper},
			Access: reconcile.Access{Client: server, Method: func(resource schema.GroupResource, subresource string) client.Method {
				return client.MethodFor(Rights(), resource, subresource)
			}},
			RegisterMetrics: func(...metrics.Registerable) {},
		}
		for _, example := range []plan.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{}, &corev1.Node{}} {
			informer, err := server.NewInformer(t.Context(), example)
			if err != nil {
				t.Fatal(err)
			}
			from.Informers.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
		}
		runner, err := (&Options{Workers: 1, Max: 100}).init(from)
		if err != nil {
			t.Fatal(err)
		}
		clienttest.Run(t, runner.Run, func() { test(server) })
	})
}

func slicesOn(t *testing.T, s *clienttest.Server) (all []*discoveryv1.EndpointSlice) {
	t.Helper()
	m := client.MappingFor[*discoveryv1.EndpointSlice]()
	list := &discoveryv1.EndpointSliceList{}
	if err := s.List(context.Background(), m, "shop", metav1.ListOptions{}, list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// While the cache does not show the slice that was made, or an update of it, whatever else changes leads neither to a second slice nor to
// an update of what is out of date.
func TestEPS60StaleCache(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      []plan.Object // what there is besides the service, before the watch of slices is frozen
		creates int           // slices made while it is
		want    string        // in the end
	}{
		{"EPS-60 a slice that was made", nil, 1, "IPv4 :8080/TCP> 10.0.0.1 10.0.0.10 10.0.0.11 10.0.0.12"},
		{"EPS-60 a slice that was changed", []plan.Object{pod("z", "10.0.0.9"), web()}, 0,
			"IPv4 :8080/TCP> 10.0.0.9 10.0.0.1 10.0.0.10 10.0.0.11 10.0.0.12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCluster(t, func(s *clienttest.Server) {
				put := func(o plan.Object) {
					t.Helper()
					if _, err := s.Put(o); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * time.Second)
					synctest.Wait()
				}
				s.FreezeWatches(client.KindFor[*discoveryv1.EndpointSlice]())
				creates, updates := s.CountWrites("create EndpointSlice"), s.CountWrites("update EndpointSlice")
				put(web())
				put(pod("a", "10.0.0.1"))
				once := s.CountWrites("update EndpointSlice") - updates
				for i := range 3 {
					put(pod(fmt.Sprint("b", i), fmt.Sprint("10.0.0.1", i)))
				}
				if n := s.CountWrites("create EndpointSlice") - creates; n != c.creates {
					t.Errorf("%d slices were made, want %d", n, c.creates)
				}
				if n := s.CountWrites("update EndpointSlice") - updates; n != once || once > 1 {
					t.Errorf("%d updates, and %d before the cache was out of date", n, once)
				}
				s.ResumeWatches(client.KindFor[*discoveryv1.EndpointSlice]())
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff([]string{c.want}, render(slicesOn(t, s))); diff != "" {
					t.Error(diff)
				}
			}, append(c.at, node("n1", "a", "1"))...)
		})
	}
}

// An update names the version that it changes: what others have written is not lost, though the cache does not show it.
func TestEPS42UpdatesHaveAPrecondition(t *testing.T) {
	inCluster(t, func(s *clienttest.Server) {
		s.FreezeWatches(client.KindFor[*discoveryv1.EndpointSlice]())
		edited := slicesOn(t, s)[0].DeepCopy()
		edited.Annotations = map[string]string{"theirs": "x"}
		for _, o := range []plan.Object{edited, pod("b", "10.0.0.2")} {
			if _, err := s.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := s.CountWrites("refused update EndpointSlice"); n == 0 {
			t.Errorf("no update was refused: %v", s.Log())
		}
		s.ResumeWatches(client.KindFor[*discoveryv1.EndpointSlice]())
		time.Sleep(time.Minute)
		synctest.Wait()
		all := slicesOn(t, s)
		if diff := cmp.Diff([]string{"IPv4 :8080/TCP> 10.0.0.1 10.0.0.2"}, render(all)); diff != "" || all[0].Annotations["theirs"] != "x" {
			t.Errorf("%v %s", all[0].Annotations, diff)
		}
	}, web(), node("n1", "a", "1"), pod("a", "10.0.0.1"))
}

// When a creation is refused, the updates and deletions that would follow it are not sent.
func TestEPS42OrderOfWrites(t *testing.T) {
	full := []plan.Object{web(), node("n1", "a", "1"), pod("a", "10.0.0.1")}
	for i := range 99 {
		full = append(full, pod(fmt.Sprintf("p%02d", i), fmt.Sprintf("10.0.1.%d", i)))
	}
	inCluster(t, func(s *clienttest.Server) {
		var refuse atomic.Bool
		refuse.Store(true)
		s.BeforeWrite(func(w clienttest.Write) error {
			if refuse.Load() && w.Verb == "create" {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		began := len(s.Writes())
		for _, p := range []plan.Object{pod("b", "10.0.0.2"), pod("a", "10.0.0.1", unready)} {
			if _, err := s.Put(p); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, w := range s.Writes()[began:] {
			if w.Verb != "create" {
				t.Errorf("the creation is refused, and written is %s", w)
			}
		}
		refuse.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		var done []string
		for _, w := range s.Writes()[began:] {
			if w.Err == nil {
				done = append(done, w.Verb)
			}
		}
		if !slices.Equal(done, []string{"create", "update"}) {
			t.Errorf("written is %v", s.Log()[began:])
		}
	}, full...)
}

// A namespace that is being deleted refuses slices: nobody is told, and nothing is tried again.
func TestEPS44NamespaceIsBeingDeleted(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, "",
		errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	inCluster(t, func(s *clienttest.Server) {
		var tries atomic.Int64
		s.BeforeWrite(func(w clienttest.Write) error {
			if w.Verb == "create" {
				tries.Add(1)
				return terminating
			}
			return nil
		})
		if _, err := s.Put(web()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if tries.Load() != 1 {
			t.Errorf("it was tried %d times", tries.Load())
		}
	}, node("n1", "a", "1"), pod("a", "10.0.0.1"))
}

// Changes that come at once lead to one slice, and what others delete or edit comes back (EPS-15, EPS-17).
func TestOneSliceWhateverHappens(t *testing.T) {
	inCluster(t, func(s *clienttest.Server) {
		expect := func(what, want string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			got := render(slicesOn(t, s))
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		expect("at the start", "IPv4 :8080/TCP> 10.0.0.1")
		for _, p := range []*corev1.Pod{pod("b", "10.0.0.2"), pod("c", "10.0.0.3"), pod("a", "10.0.0.1", unready)} {
			if _, err := s.Put(p); err != nil {
				t.Fatal(err)
			}
		}
		expect("three changes at once", "IPv4 :8080/TCP> !10.0.0.1 10.0.0.2 10.0.0.3")
		m := client.MappingFor[*discoveryv1.EndpointSlice]()
		if err := s.Delete(context.Background(), m, plan.Key{Namespace: "shop", Name: slicesOn(t, s)[0].Name},
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("deleted", "IPv4 :8080/TCP> !10.0.0.1 10.0.0.2 10.0.0.3")
		edited := slicesOn(t, s)[0].DeepCopy()
		edited.Endpoints, edited.Generation = edited.Endpoints[:1], edited.Generation+1
		if _, err := s.Put(edited); err != nil {
			t.Fatal(err)
		}
		expect("edited", "IPv4 :8080/TCP> !10.0.0.1 10.0.0.2 10.0.0.3")
	}, web(), node("n1", "a", "1"), pod("a", "10.0.0.1"))
}

// A node that is registered anew does not take the endpoints of its pods away meanwhile.
func TestEPS18EPS31NodeRegisteredAnew(t *testing.T) {
	inCluster(t, func(s *clienttest.Server) {
		web := func() *discoveryv1.EndpointSlice {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			all := slicesOn(t, s)
			if diff := cmp.Diff([]string{"IPv4 :8080/TCP> 10.0.0.1"}, render(all)); diff != "" {
				t.Fatal(diff)
			}
			return all[0]
		}
		web()
		m := client.MappingFor[*corev1.Node]()
		if err := s.Delete(context.Background(), m, plan.Key{Name: "n1"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		web()
		anew := node("n1", "b", "1")
		anew.UID = "anew"
		if _, err := s.Put(anew); err != nil {
			t.Fatal(err)
		}
		if zone := web().Endpoints[0].Zone; zone == nil || *zone != "b" {
			t.Errorf("EPS-80: the new zone is missing: %v", zone)
		}
	}, web(), node("n1", "a", "1"), pod("a", "10.0.0.1"))
}

// A pod that never was ready ends: it leaves the slice, also where such pods are published as ready.
func TestMEND18PodsThatEnd(t *testing.T) {
	for _, service := range []*corev1.Service{web(), web(publishing)} {
		inCluster(t, func(s *clienttest.Server) {
			if _, err := s.Put(pod("a", "10.0.0.1", unready, phase(corev1.PodFailed))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff([]string{"IPv4 >"}, render(slicesOn(t, s))); diff != "" {
				t.Error(diff)
			}
		}, service, node("n1", "a", "1"), pod("a", "10.0.0.1", unready))
	}
}

// A service is deleted and made anew while something keeps its slice: the new one gets a slice of its own at once.
func TestMEND20ServiceMadeAnew(t *testing.T) {
	inCluster(t, func(s *clienttest.Server) {
		old := slicesOn(t, s)[0].DeepCopy()
		if err := s.Delete(t.Context(), client.MappingFor[*corev1.Service](), webKey, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		old.Finalizers, old.DeletionTimestamp = []string{"example.com/held"}, &metav1.Time{Time: time.Now()}
		if _, err := s.Put(old); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // so that the caches show it, or it is deleted for the Service that is gone
		anew := web()
		anew.UID = "anew"
		if _, err := s.Put(anew); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		owners := map[types.UID]string{}
		for _, o := range slicesOn(t, s) {
			owners[o.OwnerReferences[0].UID] += render([]*discoveryv1.EndpointSlice{o})[0]
		}
		want := map[types.UID]string{"web": "IPv4 :8080/TCP> 10.0.0.1", "anew": "IPv4 :8080/TCP> 10.0.0.1"}
		if diff := cmp.Diff(want, owners); diff != "" {
			t.Error(diff)
		}
	}, web(), node("n1", "a", "1"), pod("a", "10.0.0.1"))
}

// A slice that somebody else deletes in the moment before the controller does counts as deleted: no error, no event, and no other try.
func TestMEND21SlicesThatAreGone(t *testing.T) {
	inCluster(t, func(s *clienttest.Server) {
		var tries atomic.Int64
		s.BeforeWrite(func(w clienttest.Write) error {
			if w.Verb == "delete" {
				tries.Add(1)
				return apierrors.NewNotFound(w.GroupResource(), w.Key.Name)
			}
			return nil
		})
		stray := theirs("web-old", managedBy)
		stray.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "web", UID: "gone"},
			corev1.SchemeGroupVersion.WithKind("Service"))}
		if _, err := s.Put(stray); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if tries.Load() != 1 {
			t.Errorf("it was tried %d times", tries.Load())
		}
	}, web(), node("n1", "a", "1"), pod("a", "10.0.0.1"))
}
