package pvcprotection

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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observer has caches, a server that may know more, and what is remembered of the namespace shop.
type observer struct {
	caches
	server *clienttest.Server
	memory *memory
	lists  int           // live ones of metadata
	took   time.Duration // each of them
	reads  int           // live ones of whole pods
	down   error
}

func newObserver(t interface{ Fatal(...any) }, objects ...plan.Object) *observer {
	f := informers.NewFactory(fake.NewClientset(), 0)
	o := &observer{server: clienttest.NewServer()}
	o.refused = reconcile.NewTerm(reconcile.TermOptions[bool]{})
	var err1, err2 error
	o.claims, err1 = informers.IndexedObjects(f, "protection", due)
	o.pods, err2 = informers.PodsByClaim(f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		o.cache(t, object)
		o.store(t, object)
	}
	return o
}

// cache puts an object into the caches.
func (o *observer) cache(t interface{ Fatal(...any) }, object plan.Object) {
	informer := o.pods.Informer()
	if _, ok := object.(*corev1.PersistentVolumeClaim); ok {
		informer = o.claims.Informer()
	}
	if err := informer.GetIndexer().Add(object); err != nil {
		t.Fatal(err)
	}
}

// store puts an object on the server.
func (o *observer) store(t interface{ Fatal(...any) }, object plan.Object) {
	if _, err := o.server.Put(object); err != nil {
		t.Fatal(err)
	}
}

// reader counts the live reads, which take their time or fail.
type reader struct {
	client.Client
	*observer
}

func (r reader) List(ctx context.Context, m client.Mapping, namespace string, opts metav1.ListOptions, into runtime.Object) error {
	if _, ok := into.(*metav1.PartialObjectMetadataList); ok {
		r.lists++
		time.Sleep(r.took)
	} else {
		r.reads++
	}
	if r.down != nil {
		return r.down
	}
	return r.Client.List(ctx, m, namespace, opts, into)
}

// look observes the namespace shop, with all live reads that the plan asks for, and remembers that.
func (o *observer) look(ctx context.Context) (snapshot, error) {
	now := time.Now()
	seen, err := o.observe(ctx, reconcile.Request[memory]{Key: plan.Key{Name: "shop"}, Now: now, Memory: o.memory})
	if err == nil {
		decide := func(s snapshot) plan.Plan { return planClaims(now, s) }
		seen, _, err = managertest.Prove(ctx, reader{o.server, o}, now, seen, o.prove, decide)
	}
	if err == nil {
		o.memory = seen.Memory
	}
	return seen.Snapshot, err
}

// A row is a sentence: what is cached, what the server has besides or instead, and then, of the claim data, which is being deleted, the pod
// that keeps it and whether it may go.
func TestObserve(t *testing.T) {
	doomed := newClaim("data", leaving, with(finalizer))
	for _, c := range []struct {
		name         string
		cached, live []plan.Object
		gone         string // a pod that the server does not have any more
		pod          string
		checked      bool
		lists, reads int
	}{
		{name: "SM-37 a pod in the cache keeps it without a live list", cached: []plan.Object{doomed, pod("web", using("data"))},
			pod: "web"},
		{name: "SM-37 of several pods the first by name is told",
			cached: []plan.Object{doomed, pod("b", using("data")), pod("a", using("data"))}, pod: "a"},
		{name: "SM-37 also one that is gone from the server", cached: []plan.Object{doomed, pod("web", using("data"))}, gone: "web",
			pod: "web"},
		{name: "SM-37 no pod at all", cached: []plan.Object{doomed}, checked: true, lists: 1},
		{name: "SM-37 pods that use others", cached: []plan.Object{doomed, pod("web", using("other")), pod("db")}, checked: true, lists: 1},
		{name: "SM-37 a pod that the cache lacks", cached: []plan.Object{doomed}, live: []plan.Object{pod("web", using("data"))},
			pod: "web", checked: true, lists: 1, reads: 1},
		{name: "SM-37 a pod that the cache lacks and that uses another one", cached: []plan.Object{doomed},
			live: []plan.Object{pod("web", using("other"))}, checked: true, lists: 1, reads: 1},
		{name: "SM-37 a pod that was scheduled since", cached: []plan.Object{doomed, pod("web", using("data"), unscheduled)},
			live: []plan.Object{pod("web", using("data"))},
			pod:  "web", checked: true, lists: 1},
		{name: "SM-36 a pod that is not scheduled", cached: []plan.Object{doomed},
			live: []plan.Object{pod("web", using("data"), unscheduled)}, checked: true, lists: 1},
		{name: "SM-37 a pod in the place of another one", cached: []plan.Object{doomed, pod("web")},
			live: []plan.Object{pod("web", using("data"), uid("new"))},
			pod:  "web", checked: true, lists: 1, reads: 1},
		{name: "SM-36 the pod of another namespace", cached: []plan.Object{doomed},
			live:    []plan.Object{pod("web", using("data"), func(p *corev1.Pod) { p.Namespace = "office" })},
			checked: true, lists: 1},
		{name: "SM-35 nobody is asked about a claim that lacks the finalizer",
			cached: []plan.Object{newClaim("data"), pod("web", using("data"))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObserver(t, c.cached...)
			for _, object := range c.live {
				o.store(t, object)
			}
			if c.gone != "" {
				pods := client.MappingFor[*corev1.Pod]()
				if err := o.server.Delete(t.Context(), pods, plan.Key{Namespace: "shop", Name: c.gone},
					metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := o.look(t.Context())
			if err != nil || len(s.Claims) != 1 {
				t.Fatal(s, err)
			}
			got := []any{s.Claims[0].Pod, s.Claims[0].Checked, o.lists, o.reads}
			if diff := cmp.Diff([]any{c.pod, c.checked, c.lists, c.reads}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One list serves all claims of a namespace, and the next one follows after a pause that depends on how long it took (SM-34, SM-41).
func TestListsAreBounded(t *testing.T) { // SM-34, SM-37
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(t)
		for i := range 100 {
			o.cache(t, newClaim(fmt.Sprint("data-", i), leaving, with(finalizer)))
			o.store(t, pod(fmt.Sprint("web-", i)))
			o.cache(t, pod(fmt.Sprint("web-", i)))
		}
		for _, c := range []struct{ took, pause time.Duration }{{20 * time.Millisecond, 200 * time.Millisecond},
			{time.Minute, longestPause}} {
			o.took, o.lists = c.took, 0
			s, err := o.look(t.Context())
			if err != nil || o.lists != 1 || o.reads != 0 ||
				slices.ContainsFunc(s.Claims, func(c *claim) bool { return !c.Checked || c.Pod != "" }) {
				t.Fatal(err, o.lists, o.reads)
			}
			if s, _ = o.look(t.Context()); o.lists != 1 || s.Pause != c.pause || s.Claims[0].Checked {
				t.Errorf("%d lists, pause %v", o.lists, s.Pause)
			}
			time.Sleep(s.Pause)
			if s, _ = o.look(t.Context()); o.lists != 2 || s.Pause != 0 {
				t.Errorf("%d lists, pause %v", o.lists, s.Pause)
			}
			time.Sleep(longestPause)
		}
	})
}

// Where the server cannot be asked, nothing is decided.
func TestNoDecisionWithoutALook(t *testing.T) { // SM-37
	o := newObserver(t, newClaim("data", leaving, with(finalizer)))
	o.down = apierrors.NewTimeoutError("slow", 1)
	if _, err := o.look(t.Context()); !apierrors.IsTimeout(err) {
		t.Error(err)
	}
}

// Of many pods that the cache lacks, because it is late or because they go while they are listed, one more list decides.
func TestManyPodsThatTheCacheLacks(t *testing.T) { // SM-37
	o := newObserver(t, newClaim("data", leaving, with(finalizer)), newClaim("free", leaving, with(finalizer)))
	for i := range mostUnknown {
		o.store(t, pod(fmt.Sprint("web-", i)))
	}
	o.store(t, pod("web", using("data")))
	s, err := o.look(t.Context())
	if err != nil || len(s.Claims) != 2 || s.Claims[0].Pod != "web" || s.Claims[1].Pod != "" || !s.Claims[0].Checked ||
		!s.Claims[1].Checked || o.reads != 1 {
		t.Errorf("%+v, %v, %d reads", s, err, o.reads)
	}
}

func TestEnqueuedByPod(t *testing.T) { // SM-32, SM-33
	o := newObserver(t, newClaim("data", leaving, with(finalizer)), newClaim("kept", with(finalizer)),
		newClaim("web-scratch", leaving, with(finalizer)))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          int
	}{
		{"SM-32 a pod that is gone", pod("web", using("data")), nil, 1},
		{"SM-32 one with an ephemeral volume that is gone", pod("web", ephemeral("scratch")), nil, 1},
		{"SM-32 one that has used a claim which is not being deleted", pod("web", using("kept")), nil, 0},
		{"SM-32 one that has used a claim which is gone", pod("web", using("none")), nil, 0},
		{"SM-32 one without claims", pod("web"), nil, 0},
		{"SM-32 a pod that changes and runs on", pod("web", using("data")), pod("web", using("data")), 0},
		{"SM-32 a new pod", nil, pod("web", using("data")), 0},
		{"SM-36 one that has completed keeps its claim", pod("web", using("data")), pod("web", using("data"), ended(corev1.PodSucceeded)),
			0},
		{"SM-36 one that has no time left to end", pod("web", ephemeral("scratch"), terminating(30)),
			pod("web", ephemeral("scratch"), terminating(0)), 1},
		{"SM-36 and does not end", pod("web", ephemeral("scratch"), terminating(0)), pod("web", ephemeral("scratch"), terminating(0)), 0},
		{"SM-33 another pod of the name", pod("web", using("data")), pod("web", uid("new")), 1},
	} {
		if keys := o.enqueuedByPod(c.before, c.after); !slices.Equal(keys, []plan.Key{{Name: "shop"}}[:c.want]) {
			t.Errorf("%s enqueues %v", c.name, keys)
		}
	}
}

// run runs the controller in virtual time while a test works. The server has these objects from the beginning.
func run(t *testing.T, test func(s *clienttest.Server, put func(plan.Object)), objects ...plan.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, entry := clienttest.NewServer(), New(Options{})
		put := func(o plan.Object) {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range objects {
			put(o)
		}
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.PersistentVolumeClaim{}},
			managertest.Cache{Example: &corev1.Pod{}})
		managertest.Run(t, c, entry, func() { test(server, put) })
	})
}

// finalizers returns those of a claim on the server.
func finalizers(t *testing.T, s *clienttest.Server, name string) []string {
	t.Helper()
	claims := client.MappingFor[*corev1.PersistentVolumeClaim]()
	c := &corev1.PersistentVolumeClaim{}
	if err := s.Get(t.Context(), claims, plan.Key{Namespace: "shop", Name: name}, c); err != nil {
		t.Fatal(err)
	}
	return c.Finalizers
}

// Claims get the finalizer, keep it while a pod is there, whatever its phase, and lose it with the pod, each by one update.
func TestLifeOfAClaim(t *testing.T) { // SM-30, SM-32, SM-35, SM-36, SM-38
	run(t, func(s *clienttest.Server, put func(plan.Object)) {
		if got := finalizers(t, s, "data"); !slices.Equal(got, []string{finalizer}) {
			t.Fatal(got)
		}
		put(newClaim("data", leaving, with(finalizer)))
		clienttest.Settle()
		put(pod("web", using("data"), ended(corev1.PodSucceeded)))
		clienttest.Settle()
		if got := finalizers(t, s, "data"); !slices.Equal(got, []string{finalizer}) {
			t.Fatal("a completed pod does not keep the claim")
		}
		pods := client.MappingFor[*corev1.Pod]()
		if err := s.Delete(t.Context(), pods, plan.Key{Namespace: "shop", Name: "web"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		clienttest.Settle()
		if got := finalizers(t, s, "data"); len(got) != 0 || s.CountWrites("update") != 2 || s.CountWrites("patch") != 0 {
			t.Error(got, s.Log())
		}
	}, newClaim("data"), pod("web", using("data")))
}

// A pod that the cache never shows keeps the claim, and its end lets it go although no event tells of it.
func TestAPodThatTheCacheMisses(t *testing.T) { // SM-37
	run(t, func(s *clienttest.Server, put func(plan.Object)) {
		s.FreezeWatches(client.KindFor[*corev1.Pod]())
		put(pod("web", using("data")))
		put(newClaim("data", leaving, with(finalizer)))
		clienttest.Settle()
		if got := finalizers(t, s, "data"); len(got) != 1 {
			t.Fatal("the finalizer was removed on the word of the cache")
		}
		pods := client.MappingFor[*corev1.Pod]()
		if err := s.Delete(t.Context(), pods, plan.Key{Namespace: "shop", Name: "web"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookAgain)
		if got := finalizers(t, s, "data"); len(got) != 0 {
			t.Error("it is still there")
		}
	})
}

// An update that fails is tried again without an end, and does not keep the others of the namespace from theirs.
func TestErrorsAreRetried(t *testing.T) { // SM-38
	run(t, func(s *clienttest.Server, put func(plan.Object)) {
		var failing atomic.Int64
		s.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name == "a" && failing.Load() < 10 {
				failing.Add(1)
				return apierrors.NewInternalError(errors.New("no"))
			}
			return nil
		})
		put(newClaim("a"))
		put(newClaim("b"))
		synctest.Wait()
		if len(finalizers(t, s, "b")) != 1 {
			t.Error("b waits for a")
		}
		clienttest.Settle()
		if len(finalizers(t, s, "a")) != 1 || failing.Load() != 10 {
			t.Errorf("a was given up after %d tries", failing.Load())
		}
	})
}
