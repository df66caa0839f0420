package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

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
	endpoints, err2 := informers.Objects[*corev1.Endpoints](f)
	pods, err3 := informers.PodsByLabels(f)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatalf("%v", err)
	}
	k := &caches{services: services, endpoints: endpoints, pods: pods, large: largeService}
	for _, o := range objects {
		k.put(t, o)
	}
	return k
}

// request is one for web. The server is empty.
func request() reconcile.Request[memory] {
	return reconcile.Request[memory]{Key: webKey, Now: now, Reader: clienttest.NewServer()}
}

func (k *caches) put(t failer, o plan.Object) {
	t.Helper()
	if err := k.store(o).Add(o); err != nil {
		t.Fatalf("%v", err)
	}
}

func (k *caches) store(o plan.Object) cache.Indexer {
	switch o.(type) {
	case *corev1.Service:
		return k.services.Informer().GetIndexer()
	case *corev1.Endpoints:
		return k.endpoints.Informer().GetIndexer()
	}
	return k.pods.Informer().GetIndexer()
}

func keyNames(keys []plan.Key) (names []string) {
	for _, k := range keys {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

func called(name string) svcEdit { return func(s *corev1.Service) { s.Name = name } }

// A row is a sentence: a pod that was like this and is like that enqueues these services.
func TestEnqueuedByPod(t *testing.T) {
	abroad := func(s *corev1.Service) { s.Namespace = "bank" }
	none := func(s *corev1.Service) { s.Spec.Selector = nil }
	k := newCaches(t, web(), web(called("both"), selecting("app=web", "tier=x")), web(called("all"), selecting()),
		web(called("x"), selecting("app=x")), web(called("none"), none), web(called("abroad"), abroad))
	a := func(edits ...podEdit) *corev1.Pod { return pod("a", "10.0.0.1", edits...) }
	tier := labeled("app=web", "tier=x")
	hostname := func(p *corev1.Pod) { p.Spec.Hostname = "a" }
	subdomain := func(p *corev1.Pod) { p.Spec.Subdomain = "web" }
	noise := func(p *corev1.Pod) {
		p.ResourceVersion, p.Annotations, p.Status.Message = "2", map[string]string{"x": "y"}, "hello"
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "x"})
		p.Status.Conditions[0].LastTransitionTime = ago(0)
	}
	for _, c := range []struct {
		name          string
		before, after *corev1.Pod
		want          []string
	}{
		{"EP-3 a new pod", nil, a(), []string{"all", "web"}},
		{"EP-3 a new pod of two", nil, a(tier), []string{"all", "both", "web"}},
		{"EP-3 a deleted pod", a(tier), nil, []string{"all", "both", "web"}},
		{"EP-6 a pod without labels", nil, a(labeled()), []string{"all"}},
		{"EP-4 what nobody reads", a(), a(noise), nil},
		{"EP-4 readiness", a(), a(unready), []string{"all", "web"}},
		{"EP-4 deletion", a(), a(terminating), []string{"all", "web"}},
		{"MEND-18 the first address of a pod that is not ready", pod("a", "", unready), pod("a", "10.0.0.1", unready),
			[]string{"all", "web"}},
		{"EP-4 updates of a terminating pod", a(terminating), a(terminating, noise), nil},
		{"EP-4 addresses", a(), a(ips("10.0.0.1", "fd00::1")), []string{"all", "web"}},
		{"MEND-18 the end of a pod that never was ready", a(unready), a(unready, phase(corev1.PodFailed)), []string{"all", "web"}},
		{"EP-5 labels: those that match one side only", a(), a(tier), []string{"both"}},
		{"EP-5 labels: from one to another", a(), a(labeled("app=x")), []string{"web", "x"}},
		{"EP-5 labels and more: those that match either", a(), a(labeled("app=x"), unready), []string{"all", "web", "x"}},
		{"EP-5 hostname", a(), a(hostname), []string{"all", "web"}},
		{"EP-5 subdomain", a(), a(subdomain), []string{"all", "web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after plan.Object
			if c.before != nil {
				before = c.before
			}
			if c.after != nil {
				after = c.after
			}
			if diff := cmp.Diff(c.want, keyNames(k.enqueuedByPod(before, after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnqueuedByOthers(t *testing.T) {
	record := stored(snapshotOf(web(), nil))
	record.Annotations = map[string]string{leaderRecord: "{}"}
	e := stored(snapshotOf(web(), nil))
	for _, c := range []struct {
		name string
		got  []plan.Key
		want int
	}{
		{"EP-1 a new service", informers.Itself(nil, web()), 1},
		{"EP-1 a changed service", informers.Itself(web(), web(headless)), 1},
		{"EP-1 a deleted service", informers.Itself(web(), nil), 1},
		{"EP-2 deleted Endpoints", enqueuedByEndpoints(e, nil), 1},
		{"EP-2 changed Endpoints", enqueuedByEndpoints(e, e), 0},
		{"EP-7 Endpoints that were there before", enqueuedByEndpoints(nil, e), 1},
		{"EP-7 not the record of a leader", enqueuedByEndpoints(nil, record), 0},
	} {
		if len(c.got) != c.want {
			t.Errorf("%s: %v", c.name, c.got)
		}
	}
}

// Whatever changes about a pod: if it changes what a service's Endpoints must be, the service is enqueued.
func TestEnqueuesWhateverThePlanReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service, before, after := drawService(t), drawPod(t), drawPod(t)
		before.Namespace, after.Namespace = "shop", "shop"
		before.Name, after.Name = "a", "a"
		after.Spec.Containers, after.Spec.InitContainers = before.Spec.Containers, before.Spec.InitContainers // fixed for life
		k := newCaches(t, service)
		enqueued := len(k.enqueuedByPod(before, after)) > 0
		x, y := stored(snapshotOf(service, nil, before)), stored(snapshotOf(service, nil, after))
		if !enqueued && !cmp.Equal(x.Subsets, y.Subsets) {
			t.Fatal(cmp.Diff(x.Subsets, y.Subsets))
		}
	})
}

// readerOf answers every read with an error, or with none.
type readerOf struct {
	client.Reader
	err error
}

func (r readerOf) Get(context.Context, client.Mapping, plan.Key, plan.Object) error { return r.err }

func TestObserve(t *testing.T) {
	ctx, r := t.Context(), request()
	e := stored(snapshotOf(web(), nil))
	k := newCaches(t, web(), e, pod("a", "10.0.0.1"), pod("b", "10.0.0.2", labeled("app=x")))
	o, err := k.observe(ctx, r)
	s := o.Snapshot
	if err != nil || !o.Exists || len(s.Pods) != 1 || s.Endpoints != e || !s.Trigger.Equal(s.Service.CreationTimestamp.Time) {
		t.Fatalf("%+v %v", o, err)
	}
	r.Memory = o.Memory
	k.put(t, pod("c", "10.0.0.3")) // into an index that is there already
	if o, _ = k.observe(ctx, r); len(o.Snapshot.Pods) != 2 || !o.Snapshot.Trigger.Equal(ago(time.Hour).Time) {
		t.Fatalf("%+v", o)
	}
	if err := k.store(s.Service).Delete(s.Service); err != nil {
		t.Fatal(err)
	}
	// EP-8, but only if the server has no such service either.
	if o, err = k.observe(ctx, r); !o.Exists || err != nil || verb(planned(o.Snapshot)) != "delete" {
		t.Fatalf("%+v %v", o, err)
	}
	if o.Memory != nil {
		t.Error("EP-31 the memory of a deleted service lasts")
	}
	for _, c := range []struct {
		err         error
		stale, fail bool
	}{
		{nil, true, true},
		{apierrors.NewNotFound(schema.GroupResource{}, "web"), false, false},
		{apierrors.NewForbidden(schema.GroupResource{}, "web", nil), false, false}, // RB-12
		{errors.New("no answer"), false, true},
	} {
		r.Reader = readerOf{err: c.err}
		if _, err := k.observe(ctx, r); (err != nil) != c.fail || errors.Is(err, plan.ErrStale) != c.stale {
			t.Errorf("server: %v, observed: %v", c.err, err)
		}
	}
	if err := k.store(e).Delete(e); err != nil {
		t.Fatal(err)
	}
	if o, err = k.observe(ctx, r); o.Exists || err != nil {
		t.Errorf("%+v %v", o, err)
	}
}

// A service that loses its selector for a while is still the one that it was (EP-31).
func TestMemoryOfServicesThatAreLeftAlone(t *testing.T) {
	r := request()
	r.Memory = &memory{Times: &endpoints.Times{Created: 7}}
	for _, edit := range []svcEdit{
		func(s *corev1.Service) { s.Spec.Selector = nil },
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
	} {
		if o, err := newCaches(t, web(edit)).observe(t.Context(), r); err != nil || o.Memory != r.Memory {
			t.Errorf("%+v %v", o, err)
		}
	}
}

// To observe has no side effects: it leaves the memory that it is given alone, and when it is repeated, the result is the
// same.
func TestObserveHasNoSideEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, r := newCaches(t, drawService(t)), request()
		for range rapid.IntRange(1, 5).Draw(t, "reconciles") {
			for _, p := range drawPods(t) {
				p.Status.Conditions[0].LastTransitionTime = ago(time.Duration(rapid.IntRange(0, 7200).Draw(t, "ready since")) * time.Second)
				k.put(t, p)
			}
			var before *endpoints.Times
			if r.Memory != nil {
				before = &endpoints.Times{Created: r.Memory.Times.Created, Ready: r.Memory.Times.Ready.Clone()}
			}
			first, err1 := k.observe(context.Background(), r)
			second, err2 := k.observe(context.Background(), r)
			byName := cmpopts.SortSlices(func(a, b *corev1.Pod) bool { return a.Name < b.Name })
			if diff := cmp.Diff(first, second, cmp.AllowUnexported(snapshot{}), byName); diff != "" || err1 != nil || err2 != nil {
				t.Fatal(diff, err1, err2)
			}
			if r.Memory != nil {
				if diff := cmp.Diff(before, r.Memory.Times); diff != "" {
					t.Fatal(diff)
				}
			}
			r.Memory = first.Memory
		}
	})
}
