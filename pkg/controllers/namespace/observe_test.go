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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// server answers the reads of Observe, and notes what it was asked.
type server struct {
	client.Reader // nil: nothing else is called

	namespace *corev1.Namespace
	objects   map[string][]*metav1.PartialObjectMetadata
	errors    map[string]error
	hang      map[string]bool
	endless   map[string]bool // lists go on for ever

	mu    sync.Mutex
	asked []string
}

func (s *server) Get(_ context.Context, _ client.Mapping, key plan.Key, into plan.Object) error {
	if s.namespace == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	s.namespace.DeepCopyInto(into.(*corev1.Namespace))
	return nil
}

func (s *server) List(ctx context.Context, m client.Mapping, _ string, o metav1.ListOptions, into runtime.Object) error {
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
	if s.endless[m.Resource] {
		page.Continue = "again"
		return nil
	}
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

// watching is an observer whose cache has the namespace, and whose server has pods, secrets, deployments and network policies.
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
	f := informers.NewFactory(kubernetes.NewForConfigOrDie(&rest.Config{}), 0)
	cached, err := informers.Objects[*corev1.Namespace](f)
	if err != nil {
		t.Fatal(err)
	}
	if err := cached.Informer().GetStore().Add(ns); err != nil {
		t.Fatal(err)
	}
	w := &watching{T: t,
		server: &server{namespace: ns, objects: map[string][]*metav1.PartialObjectMetadata{}, errors: map[string]error{},
			hang: map[string]bool{}, endless: map[string]bool{}}}
	w.observer = newObserver(cached, func(_ context.Context, earliest time.Time, verbs ...string) (all []client.Mapping, err error) {
		w.since = earliest
		for _, kind := range []schema.GroupVersionKind{client.KindFor[*corev1.Pod](), secrets, deployments, policies,
			client.KindFor[*corev1.Namespace]()} {
			if kind == secrets && w.unlisted && slices.Contains(verbs, "list") ||
				kind != secrets && slices.Contains(verbs, "deletecollection") {
				continue
			}
			m, _ := client.BuiltIn(kind)
			all = append(all, m)
		}
		return all, w.failing
	}, 0)
	return w
}

// round observes the namespace once.
func (w *watching) round() reconcile.Observation[snapshot, memory] {
	w.Helper()
	o, err := w.observer.observe(w.Context(),
		reconcile.Request[memory]{Key: plan.Key{Name: "shop"}, Now: time.Now(), Reader: w.server, Memory: w.memory})
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

// expectComplete does a round that finds nothing, and compares whether it was complete.
func (w *watching) expectComplete(want bool) {
	w.Helper()
	if s := w.round().Snapshot; len(s.Contents) > 0 || s.Complete != want {
		w.Errorf("it is complete: %t; there are %+v", s.Complete, s.Contents)
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
		"NS-4 it looks at once, but an empty namespace is complete only five seconds after its deletion was seen": func(t *testing.T) {
			w := watch(t, just())
			w.expectComplete(false)
			w.expectRequests("deployments pods secrets")
			time.Sleep(settling - time.Millisecond)
			w.expectComplete(false)
			w.expectRequests("pods")
			time.Sleep(time.Millisecond)
			w.expectComplete(true)
		},
		"NS-4 so it is if its deletion timestamp is old: the clock of the API server may be behind": func(t *testing.T) {
			w := watch(t, ending(func(ns *corev1.Namespace) {
				ns.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
			}))
			w.expectComplete(false)
			time.Sleep(settling)
			w.expectComplete(true)
		},
		"NS-4, NS-18 network policies are left alone until no pod can come any more": func(t *testing.T) {
			w := watch(t, just())
			w.objects["networkpolicies"] = append(w.objects["networkpolicies"], object("a"))
			w.expect()
			time.Sleep(settling)
			w.expect("1 networkpolicies undeleted=true")
		},
		"NS-28 when nothing is left, all resources are listed once more, those that were empty before too": func(t *testing.T) {
			w := watch(t, just())
			w.objects["secrets"] = append(w.objects["secrets"], deleted("a", "x"))
			w.expect("1 secrets undeleted=false")
			time.Sleep(settling)
			w.expect("1 secrets undeleted=false")
			w.objects["deployments"], w.objects["secrets"] = append(w.objects["deployments"], object("late")), nil
			w.requests()
			w.expect("1 deployments undeleted=true")
			w.expectRequests("deployments networkpolicies pods pods secrets secrets")
			w.objects["deployments"] = nil
			w.expectComplete(true)
			w.expectRequests("deployments deployments networkpolicies pods pods secrets")
		},
		"NS-28 the complete round begins after the last object has gone": func(t *testing.T) {
			w := watch(t, just())
			w.objects["secrets"] = append(w.objects["secrets"], deleted("a", "x"))
			w.expect("1 secrets undeleted=false")
			time.Sleep(settling + emptyFor) // nothing is known to be empty any more
			w.requests()
			w.objects["secrets"] = nil
			w.expectComplete(true)
			w.expectRequests("deployments deployments networkpolicies networkpolicies pods pods secrets secrets")
		},
		"NS-48 while something is left, a resource that was empty is looked at once a minute": func(t *testing.T) {
			w := watch(t, just())
			w.objects["secrets"] = append(w.objects["secrets"], object("a"))
			w.expect("1 secrets undeleted=true")
			w.expectRequests("deployments pods secrets")
			w.expect("1 secrets undeleted=true")
			w.expectRequests("pods secrets")
			time.Sleep(emptyFor)
			w.expect("1 secrets undeleted=true")
			w.expectRequests("deployments networkpolicies pods secrets")
		},
		"NS-14 the discovery is never older than the deletion, and for the release not older than what may come": func(t *testing.T) {
			w := watch(t, just())
			seen := time.Now()
			for _, wait := range []time.Duration{0, settling} {
				time.Sleep(wait)
				w.round()
				if got := w.since.Sub(seen); got != wait {
					t.Errorf("%v after it was seen, a discovery since %v after that will do", wait, got)
				}
			}
		},
		"NS-18 while a pod exists, nothing else is looked at; nor is it while pods cannot be listed (NS-19)": func(t *testing.T) {
			w := watch(t, just())
			w.objects["pods"] = append(w.objects["pods"], deleted("web-0"))
			w.expect("1 pods undeleted=false")
			w.expectRequests("pods")
			w.errors["pods"] = errors.New("no")
			w.expect("0 pods undeleted=falselist pods: no")
			w.expectRequests("pods")
		},
		"NS-49 many objects are counted by page": func(t *testing.T) {
			w := watch(t, just())
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
			w.errors["secrets"] = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "secrets"}, "list")
			w.errors["deployments"] = apierrors.NewNotFound(schema.GroupResource{}, "")
			w.expect()
		},
		"NS-12 one that only the finalizers of others hold is looked into, one without any is not": func(t *testing.T) {
			for want, edit := range map[string]func(*corev1.Namespace){
				"deployments pods secrets": finalizers("example.com/hold"), "": finalizers(),
			} {
				w := watch(t, ending(edit))
				w.round()
				w.expectRequests(want)
			}
		},
		"NS-15 what cannot be listed is not asked for, but known when nothing else is left": func(t *testing.T) {
			w := watch(t, just())
			w.unlisted = true
			w.objects["deployments"] = append(w.objects["deployments"], deleted("web"))
			if s := w.round().Snapshot; s.Unlisted != nil {
				t.Errorf("while something is left: %v", s.Unlisted)
			}
			w.objects["deployments"] = nil
			time.Sleep(settling)
			w.requests()
			if s := w.round().Snapshot; !slices.Equal(s.Unlisted, []schema.GroupVersionKind{secrets}) {
				t.Errorf("when nothing is left: %v", s.Unlisted)
			}
			w.expectRequests("deployments deployments networkpolicies networkpolicies pods pods")
			w.memory.Swept = true
			if s := w.round().Snapshot; s.Unlisted != nil || !s.Complete {
				t.Errorf("when it was deleted: %v", s.Unlisted)
			}
		},
		"what an API server answers about one namespace stops no other": func(t *testing.T) {
			w := watch(t, just())
			w.errors["secrets"] = apierrors.NewInternalError(errors.New("conversion webhook failed"))
			w.expect("0 secrets undeleted=falselist secrets: Internal error occurred: conversion webhook failed")
			w.requests()
			w.errors["secrets"] = nil
			w.expect()
			w.expectRequests("pods secrets")
			w.errors["secrets"] = apierrors.NewServiceUnavailable("no server of that API")
			clear(w.memory.Empty)
			w.expect("0 secrets undeleted=falselist secrets: no server of that API")
			w.requests()
			w.expect("0 secrets undeleted=falselist Secret: no server of that API")
			w.expectRequests("pods")
		},
		"a resource that does not answer is not asked by others meanwhile, and again later": func(t *testing.T) {
			w := watch(t, just())
			w.hang["secrets"] = true
			began := time.Now()
			w.expect("0 secrets undeleted=falselist secrets: context deadline exceeded")
			if took := time.Since(began); took != listTimeout {
				t.Errorf("took %v", took)
			}
			w.requests()
			w.hang["secrets"] = false
			w.expect("0 secrets undeleted=falselist Secret: context deadline exceeded")
			w.expectRequests("networkpolicies pods")
			time.Sleep(retryAfter)
			w.expectComplete(true)
		},
		"whoever gives up has not found out anything": func(t *testing.T) {
			w := watch(t, just())
			w.hang["secrets"] = true
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second/2, cancel)
			_, _ = w.observer.observe(ctx, reconcile.Request[memory]{Key: plan.Key{Name: "shop"}, Now: time.Now(), Reader: w.server})
			w.hang["secrets"] = false
			w.requests()
			w.expect()
			w.expectRequests("deployments pods secrets")
		},
		"NS-14 a discovery that fails in part is no reason not to look at the rest": func(t *testing.T) {
			w := watch(t, just())
			w.failing = errors.New("503")
			if s := w.round().Snapshot; s.Discovery == nil || s.Discovery.Message != "503" {
				t.Errorf("%+v", s)
			}
			w.expectRequests("deployments pods secrets")
		},
		"NS-6, NS-26 a deletion without effect is noticed, and its rounds are counted": func(t *testing.T) {
			w := watch(t, just())
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

// A namespace with 10,000 objects whose deletion was asked for is emptied at once. If only the cache says that it was, because its watch is
// frozen or a backup was restored, nothing is even listed: there is no need for a brake.
func TestDeletionIsProvedBeforeContentGoes(t *testing.T) {
	deleting := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "old", DeletionTimestamp: ptr.To(metav1.Now())},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
	}
	for name, live := range map[string]*corev1.Namespace{
		"asked for":                           deleting,
		"only the cache says so":              {ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "old"}},
		"it is that of a namespace of before": {ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "new"}},
		"the namespace is gone":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, deleting)
			for i := range 10000 {
				w.objects["deployments"] = append(w.objects["deployments"], &metav1.PartialObjectMetadata{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i)},
				})
			}
			w.namespace = live
			o := w.round()
			listed := w.requests()
			if live != deleting {
				if o.Exists || listed != "" {
					t.Errorf("it is worked on: %t, lists: %q", o.Exists, listed)
				}
				return
			}
			p := planContent(time.Now(), o.Snapshot)
			if each, ok := p.Steps[0].(plan.Each); !ok || len(each.Sequences) != 1 ||
				!strings.Contains(p.Why, "deletes all deployments.apps") {
				t.Errorf("it is planned: %s", p.Why)
			}
		})
	}
}

// A kind whose list goes on for ever has not been listed: it keeps the namespace, and is asked seldom.
func TestListWithoutAnEnd(t *testing.T) {
	w := watch(t, just())
	w.endless["deployments"] = true
	s := w.round().Snapshot
	if len(s.Contents) != 1 || !strings.Contains(s.Contents[0].Error, paging.ErrEndless.Error()) || s.Complete {
		t.Errorf("%+v", s.Contents)
	}
	if asked := strings.Count(w.requests(), "deployments"); asked != 2 {
		t.Errorf("%d requests", asked)
	}
}
