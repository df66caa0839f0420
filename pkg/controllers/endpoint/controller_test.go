package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// newCaches returns caches that hold the objects. The server has no service.
func newCaches(t failer, objects ...plan.Object) *caches {
	t.Helper()
	f := informers.NewFactory(fake.NewClientset(), 0)
	services, err1 := informers.Services(f)
	endpoints, err2 := informers.Endpoints(f)
	pods, err3 := informers.PodsByLabels(f)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatalf("%v", err)
	}
	k := &caches{services: services, endpoints: endpoints, pods: pods, triggers: newTriggers(),
		exists: func(context.Context, plan.Key) (bool, error) { return false, nil }}
	for _, o := range objects {
		k.put(t, o)
	}
	return k
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

// A row is a sentence: a pod that was like this and is like that wakes these services.
func TestWokenByPod(t *testing.T) {
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
		{"EP-4 updates of a terminating pod", a(terminating), a(terminating, noise), nil},
		{"EP-4 addresses", a(), a(ips("10.0.0.1", "fd00::1")), []string{"all", "web"}},
		{"the end of a pod that never was ready", a(unready), a(unready, phase(corev1.PodFailed)), []string{"all", "web"}},
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
			if diff := cmp.Diff(c.want, keyNames(k.wokenByPod(before, after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOtherWakes(t *testing.T) {
	record := stored(look(web(), nil))
	record.Annotations = map[string]string{leaderRecord: "{}"}
	e := stored(look(web(), nil))
	for _, c := range []struct {
		name string
		got  []plan.Key
		want int
	}{
		{"EP-1 a new service", informers.Itself(nil, web()), 1},
		{"EP-1 a changed service", informers.Itself(web(), web(headless)), 1},
		{"EP-1 a deleted service", informers.Itself(web(), nil), 1},
		{"EP-2 deleted Endpoints", wokenByEndpoints(e, nil), 1},
		{"EP-2 changed Endpoints", wokenByEndpoints(e, e), 0},
		{"EP-7 Endpoints that were there before", wokenByEndpoints(nil, e), 1},
		{"EP-7 not the record of a leader", wokenByEndpoints(nil, record), 0},
	} {
		if len(c.got) != c.want {
			t.Errorf("%s: %v", c.name, c.got)
		}
	}
}

// Whatever changes about a pod: if it changes what a service's Endpoints must be, the service is looked at.
func TestWakesWhateverThePlanReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service, before, after := drawService(t), drawPod(t), drawPod(t)
		before.Namespace, after.Namespace = "shop", "shop"
		before.Name, after.Name = "a", "a"
		after.Spec.Containers, after.Spec.InitContainers = before.Spec.Containers, before.Spec.InitContainers // fixed for life
		k := newCaches(t, service)
		woken := len(k.wokenByPod(before, after)) > 0
		x, y := stored(look(service, nil, before)), stored(look(service, nil, after))
		if !woken && !cmp.Equal(x.Subsets, y.Subsets) {
			t.Fatal(cmp.Diff(x.Subsets, y.Subsets))
		}
	})
}

func TestObserve(t *testing.T) {
	ctx, key := t.Context(), plan.Key{Namespace: "shop", Name: "web"}
	e := stored(look(web(), nil))
	k := newCaches(t, web(), e, pod("a", "10.0.0.1"), pod("b", "10.0.0.2", labeled("app=x")))
	s, ok, err := k.observe(ctx, key)
	if err != nil || !ok || len(s.pods) != 1 || s.endpoints != e || !s.trigger.Equal(s.service.CreationTimestamp.Time) {
		t.Fatalf("%+v %t %v", s, ok, err)
	}
	k.put(t, pod("c", "10.0.0.3")) // into an index that is there already
	if s, _, _ = k.observe(ctx, key); len(s.pods) != 2 {
		t.Fatalf("%d pods", len(s.pods))
	}
	if err := k.store(s.service).Delete(s.service); err != nil {
		t.Fatal(err)
	}
	// EP-8, but only if the server has no such service either.
	if s, ok, err = k.observe(ctx, key); !ok || err != nil || verb(planEndpoints(now, s)) != "delete" {
		t.Fatalf("%+v %t %v", s, ok, err)
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
		k.exists = asker(&server{get: c.err})
		if _, _, err := k.observe(ctx, key); (err != nil) != c.fail || errors.Is(err, plan.ErrStale) != c.stale {
			t.Errorf("server: %v, observed: %v", c.err, err)
		}
	}
	if len(k.triggers.known) != 0 {
		t.Error("EP-31 the memory of a deleted service lasts")
	}
	if err := k.store(e).Delete(e); err != nil {
		t.Fatal(err)
	}
	if _, ok, err = k.observe(ctx, key); ok || err != nil {
		t.Errorf("%t %v", ok, err)
	}
}

func TestTriggerTime(t *testing.T) { // EP-31
	key, service := plan.Key{Namespace: "shop", Name: "web"}, web()
	since := func(d time.Duration) podEdit {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = ago(d) }
	}
	a, b := pod("a", "10.0.0.1", since(time.Hour)), pod("b", "10.0.0.2", since(time.Minute))
	tr := newTriggers()
	for _, step := range []struct {
		what    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    time.Duration // ago; zero: none
	}{
		{"the first look: when the service was created", service, list(a), 2 * time.Hour},
		{"nothing has happened", service, list(a), 0},
		{"a pod seen first", service, list(a, b), time.Minute},
		{"two changes: the earlier", service, list(pod("a", "", since(30*time.Second)), pod("b", "", since(20*time.Second))), 30 * time.Second},
		{"a pod is gone", service, list(pod("a", "", since(30*time.Second))), 0},
		{"an earlier time is no change", service, list(pod("a", "", since(40*time.Second))), 0},
		{"the service was made anew", web(func(s *corev1.Service) { s.CreationTimestamp = ago(10 * time.Second) }), nil, 10 * time.Second},
	} {
		got := tr.next(key, step.service, step.pods)
		if step.want == 0 && !got.IsZero() || step.want != 0 && !got.Equal(now.Add(-step.want)) {
			t.Errorf("%s: %v", step.what, got)
		}
	}
	// A write that failed is made up for, and tells of the change that it was about.
	k := &caches{triggers: tr}
	k.learn(snapshot{key: key, trigger: ago(time.Minute).Time}, plan.Outcome{Err: errors.New("no")})
	if got := tr.next(key, service, list(b)); !got.Equal(ago(time.Minute).Time) {
		t.Errorf("after a failure: %v", got)
	}
	if got := tr.next(key, service, list(b)); !got.IsZero() {
		t.Errorf("once more: %v", got)
	}
	tr.reset()
	if got := tr.next(key, service, list(b)); !got.Equal(service.CreationTimestamp.Time) {
		t.Errorf("a new term: %v", got)
	}
}

// server is an API server that answers as it is told.
type server struct {
	engine.API
	get       error
	endpoints []metav1.PartialObjectMetadata
	refuse    map[string]error // deletions, by name, once
	log       []string
	asked     string
	held      bool
	done      chan struct{} // closed when a list came back empty
}

func (s *server) Held() bool { return s.held }

func (s *server) Get(context.Context, engine.Kind, string, string) (plan.Object, error) {
	return web(), s.get
}

func (s *server) List(_ context.Context, k engine.Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	s.asked = k.Resource + " " + namespace + " " + selector
	return slices.Clone(s.endpoints), nil
}

func (s *server) Delete(_ context.Context, _ engine.Kind, namespace, name string, opts metav1.DeleteOptions) error {
	if err := s.refuse[name]; err != nil {
		delete(s.refuse, name)
		return err
	}
	s.log = append(s.log, fmt.Sprintf("%s/%s %s %s", namespace, name, *opts.Preconditions.UID, *opts.Preconditions.ResourceVersion))
	s.endpoints = slices.DeleteFunc(s.endpoints, func(o metav1.PartialObjectMetadata) bool { return o.Name == name })
	if len(s.endpoints) == 0 {
		close(s.done)
	}
	return nil
}

func TestCleanUpWhenDisabled(t *testing.T) {
	one := func(name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u-1", ResourceVersion: "7"}}
	}
	s := &server{endpoints: []metav1.PartialObjectMetadata{one("a"), one("b"), one("c")}, held: true, done: make(chan struct{}),
		refuse: map[string]error{"a": apierrors.NewConflict(schema.GroupResource{}, "a", nil)}}
	k, err := engine.KindOf(&corev1.Endpoints{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- (&cleanup{kind: k, api: s, lease: s, pace: time.Microsecond, retry: time.Microsecond}).Run(ctx)
	}()
	<-s.done
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	want := []string{"shop/b u-1 7", "shop/c u-1 7", "shop/a u-1 7"}
	if diff := cmp.Diff(want, s.log); diff != "" || s.asked != "endpoints  endpoints.kubernetes.io/managed-by=endpoint-controller" {
		t.Error(diff, s.asked)
	}
}

func TestCleanUpNeedsTheLease(t *testing.T) {
	s := &server{endpoints: []metav1.PartialObjectMetadata{{}}}
	c := &cleanup{api: s, lease: s}
	if n, err := c.round(t.Context()); n != 0 || !errors.Is(err, engine.ErrNotLeading) || len(s.log) > 0 {
		t.Error(n, err, s.log)
	}
}
