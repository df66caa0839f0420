package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/api"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// server answers the reads of Observe, and notes what it was asked.
type server struct {
	api.Reader // nil: nothing else is called

	namespace *corev1.Namespace
	servers   int // API servers with a fresh lease
	objects   map[string][]*metav1.PartialObjectMetadata
	errors    map[string]error
	hang      map[string]bool

	mu    sync.Mutex
	asked []string
}

func (s *server) Get(_ context.Context, _ api.Mapping, key plan.Key, into plan.Object) error {
	if s.namespace == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	s.namespace.DeepCopyInto(into.(*corev1.Namespace))
	return nil
}

func (s *server) List(ctx context.Context, m api.Mapping, _ string, o metav1.ListOptions, into runtime.Object) error {
	if list, ok := into.(*coordinationv1.LeaseList); ok {
		for range s.servers {
			list.Items = append(list.Items, coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))}})
		}
		list.Items = append(list.Items, coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))}})
		return nil
	}
	s.mu.Lock()
	s.asked = append(s.asked, m.Resource+o.Continue)
	s.mu.Unlock()
	if s.hang[m.Resource] {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := s.errors[m.Resource]; err != nil {
		return err
	}
	all, page := s.objects[m.Resource], into.(*metav1.PartialObjectMetadataList)
	first := len(o.Continue) * int(o.Limit) // a token is as long as the pages before it are many
	last := min(first+int(o.Limit), len(all))
	for _, one := range all[first:last] {
		page.Items = append(page.Items, *one)
	}
	if last < len(all) {
		page.Continue, page.RemainingItemCount = o.Continue+"+", ptr.To(int64(len(all)-last))
	}
	return nil
}

// requests returns what was asked since the last call, sorted.
func (s *server) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.asked
	s.asked = nil
	slices.Sort(all)
	return strings.Join(all, " ")
}

// watching is an observer whose cache has the namespace, and whose server has pods, secrets and deployments.
type watching struct {
	*testing.T
	*server
	observer *observer
	memory   *memory
	failing  error // of discovery
	unlisted bool  // secrets cannot be listed
	since    time.Time
}

func watch(t *testing.T, ns *corev1.Namespace) *watching {
	f := kubeinformers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(&rest.Config{}), 0)
	cached, err := informers.Objects[*corev1.Namespace](f)
	if err != nil {
		t.Fatal(err)
	}
	if err := cached.Informer().GetStore().Add(ns); err != nil {
		t.Fatal(err)
	}
	w := &watching{T: t, server: &server{namespace: ns, servers: 1, objects: map[string][]*metav1.PartialObjectMetadata{}, errors: map[string]error{}, hang: map[string]bool{}}}
	w.observer = &observer{cached: cached, resources: func(_ context.Context, earliest time.Time, verbs ...string) (all []api.Mapping, err error) {
		w.since = earliest
		for _, kind := range []schema.GroupVersionKind{podKind, secrets, deployments, namespaces.GroupVersionKind} {
			if kind == secrets && w.unlisted && slices.Contains(verbs, "list") || kind == deployments && slices.Contains(verbs, "deletecollection") {
				continue
			}
			m, _ := api.BuiltIn(kind)
			all = append(all, m)
		}
		return all, w.failing
	}}
	return w
}

// round observes the namespace once.
func (w *watching) round() reconcile.Observation[snapshot, memory] {
	w.Helper()
	o, err := w.observer.observe(w.Context(), reconcile.Request[memory]{Key: plan.Key{Name: "shop"}, Now: time.Now(), Reader: w.server, Memory: w.memory})
	if err != nil {
		w.Fatal(err)
	}
	w.memory = o.Memory
	return o
}

// found says what a round has found, in short.
func (w *watching) found() (all []string) {
	w.Helper()
	for _, c := range w.round().Snapshot.Contents {
		all = append(all, fmt.Sprintf("%d %s undeleted=%t%s", c.Count, c.Resource, c.Undeleted, c.Error))
	}
	return all
}

func (w *watching) expect(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.found()); diff != "" {
		w.Errorf("(-want +got):\n%s", diff)
	}
}

func (w *watching) expectRequests(want string) {
	w.Helper()
	if got := w.requests(); got != want {
		w.Errorf("asked for %q, want %q", got, want)
	}
}

// just is a namespace that is deleted this second.
func just() *corev1.Namespace {
	return ending(func(ns *corev1.Namespace) { ns.DeletionTimestamp = ptr.To(metav1.Now()) })
}

func TestObserve(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"NS-10 a live namespace, one that is gone, and a new one of its name are left alone": func(t *testing.T) {
			for _, live := range []*corev1.Namespace{nil, ending(func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil })} {
				w := watch(t, just())
				w.namespace = live
				if o := w.round(); o.Exists {
					t.Errorf("%+v", o)
				}
				w.expectRequests("")
			}
		},
		"NS-4 with one API server it waits for a moment, with several or none that is known for five seconds": func(t *testing.T) {
			for servers, want := range map[int]time.Duration{0: severalServers, 1: oneServer, 2: severalServers} {
				w := watch(t, just())
				w.servers = servers
				if wait := time.Until(w.round().Snapshot.SettledAt); wait != want {
					t.Errorf("%d servers: waits %v", servers, wait)
				}
				w.expectRequests("")
			}
		},
		"one that was deleted long ago has been waited for": func(t *testing.T) {
			w := watch(t, ending(func(ns *corev1.Namespace) {
				ns.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-time.Minute)))
			}))
			w.round()
			w.expectRequests("deployments pods secrets")
		},
		"NS-28, NS-48 a resource that was empty is not asked for again; a discovery is never older than the deletion": func(t *testing.T) {
			w := watch(t, just())
			seen := time.Now()
			w.round()
			time.Sleep(time.Second)
			w.objects["secrets"] = append(w.objects["secrets"], object("a"))
			w.expect("1 secrets undeleted=true")
			w.expectRequests("deployments pods secrets")
			w.expect("1 secrets undeleted=true")
			w.expectRequests("secrets")
			if !w.since.Equal(seen) {
				t.Errorf("a discovery since %v will do, but it was seen at %v", w.since, seen)
			}
			time.Sleep(emptyFor)
			w.expect("1 secrets undeleted=true")
			w.expectRequests("deployments pods secrets")
		},
		"NS-18 while a pod exists, nothing else is looked at; nor is it while pods cannot be listed (NS-19)": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.objects["pods"] = append(w.objects["pods"], deleted("web-0"))
			w.expect("1 pods undeleted=false")
			w.expectRequests("pods")
			w.errors["pods"] = errors.New("no")
			w.expect("0 pods undeleted=falselist pods: no")
			w.expectRequests("pods")
		},
		"NS-49 many objects are counted by page": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			for i := range 1200 {
				w.objects["secrets"] = append(w.objects["secrets"], deleted(fmt.Sprint(i), "x"))
			}
			w.objects["deployments"] = append(slices.Clone(w.objects["secrets"]), object("last"))
			w.objects["deployments"][3] = object("early")
			w.expect("1200 secrets undeleted=false", "1201 deployments undeleted=true")
			w.expectRequests("deployments pods secrets secrets+ secrets++")
		},
		"NS-17 a resource that cannot be listed has nothing": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.errors["secrets"] = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "secrets"}, "list")
			w.errors["deployments"] = apierrors.NewNotFound(schema.GroupResource{}, "")
			w.expect()
		},
		"NS-12 one that only the finalizers of others hold is looked into, one without any is not": func(t *testing.T) {
			for want, edit := range map[string]func(*corev1.Namespace){
				"deployments pods secrets": finalizers("example.com/hold"), "": finalizers(),
			} {
				w := watch(t, ending(edit, func(ns *corev1.Namespace) {
					ns.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-time.Minute)))
				}))
				w.round()
				w.expectRequests(want)
			}
		},
		"NS-15 what cannot be listed is not asked for, but known when nothing else is left": func(t *testing.T) {
			w := watch(t, just())
			w.unlisted = true
			w.round()
			time.Sleep(time.Second)
			w.objects["deployments"] = append(w.objects["deployments"], deleted("web"))
			if s := w.round().Snapshot; s.Unlisted != nil {
				t.Errorf("while something is left: %v", s.Unlisted)
			}
			w.objects["deployments"] = nil
			if s := w.round().Snapshot; !slices.Equal(s.Unlisted, []schema.GroupVersionKind{secrets}) {
				t.Errorf("when nothing is left: %v", s.Unlisted)
			}
			w.expectRequests("deployments deployments pods")
		},
		"a resource that does not answer is not asked by others meanwhile, and again later": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.hang["secrets"] = true
			began := time.Now()
			w.expect("0 secrets undeleted=falselist secrets: context deadline exceeded")
			if took := time.Since(began); took != listTimeout {
				t.Errorf("took %v", took)
			}
			w.requests()
			w.hang["secrets"] = false
			w.expect("0 secrets undeleted=falselist Secret: context deadline exceeded")
			w.expectRequests("")
			time.Sleep(retryAfter)
			w.expect()
			w.expectRequests("secrets")
		},
		"NS-14 a discovery that fails in part is no reason not to look at the rest": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.failing = errors.New("503")
			if s := w.round().Snapshot; s.Discovery == nil || s.Discovery.Message != "503" {
				t.Errorf("%+v", s)
			}
			w.expectRequests("deployments pods secrets")
		},
		"NS-6, NS-26 a deletion without effect is noticed, and its rounds are counted": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.objects["secrets"] = append(w.objects["secrets"], object("a"), object("b"))
			var got []string
			for range 5 {
				s := w.round().Snapshot
				got = append(got, fmt.Sprintf("%d %t", s.Rounds, s.Contents[0].Unmoved))
				if len(got) == 3 {
					w.objects["secrets"] = w.objects["secrets"][1:]
				}
			}
			if diff := cmp.Diff([]string{"0 false", "1 true", "2 true", "0 false", "1 true"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		},
		"rounds that find no fewer objects are counted": func(t *testing.T) {
			w := watch(t, just())
			w.round()
			time.Sleep(time.Second)
			w.objects["secrets"] = append(w.objects["secrets"], deleted("a", "x"), deleted("b", "x"))
			var rounds []int
			for range 4 {
				rounds = append(rounds, w.round().Snapshot.Rounds)
				if len(rounds) == 3 {
					w.objects["secrets"] = w.objects["secrets"][1:]
				}
			}
			if !slices.Equal(rounds, []int{1, 2, 3, 0}) {
				t.Errorf("%v", rounds)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
