package informers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// small is a pod of that owner, an orphan if there is none.
func small(namespace, name string, owner types.UID, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "no controller"},
			*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "o", UID: owner}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
		}
	}
	return p
}

func names[T metav1.Object](objects []T) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestLookups(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	pods, byNode := must(Pods(f)), must(PodsByNode(f))
	for _, p := range []*corev1.Pod{
		small("shop", "a", "rs1", "n1"), small("shop", "b", "rs1", "n2"), small("shop", "c", "rs2", "n1"), small("shop", "d", "", "n1"),
		small("bank", "e", "", ""), small("bank", "f", "rs1", ""),
	} {
		if err := pods.Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ what, got, want string }{
		{"pods of rs1", names(pods.OwnedBy("shop", "rs1")), "a b"},
		{"RS-11 a pod that names an owner in another namespace is found in its own", names(pods.OwnedBy("bank", "rs1")), "f"},
		{"pods of rs2", names(pods.OwnedBy("shop", "rs2")), "c"},
		{"pods of nobody", names(pods.OwnedBy("shop", "")), ""},
		{"pods of an owner that is no controller", names(pods.OwnedBy("shop", "no controller")), ""},
		{"orphans in shop", names(pods.OrphansIn("shop")), "d"},
		{"orphans in bank", names(pods.OrphansIn("bank")), "e"},
		{"orphans nowhere", names(pods.OrphansIn("")), ""},
		{"all in shop", names(pods.In("shop")), "a b c d"},
		{"on n1", names(byNode.OnNode("n1")), "a c d"},
		{"on no node", names(byNode.OnNode("")), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if p := pods.Get("shop", "a"); p == nil || p.UID != "shop-a" {
		t.Errorf("got %v", p)
	}
	if p := pods.Get("shop", "z"); p != nil {
		t.Errorf("got %v", p)
	}
	// A pod that changes hands is found where it is now.
	must[any](nil, pods.Informer().GetIndexer().Update(small("shop", "a", "", "n2")))
	if got := names(pods.OwnedBy("shop", "rs1")) + "|" + names(pods.OrphansIn("shop")) + "|" +
		names(byNode.OnNode("n2")); got != "b|a d|a b" {
		t.Error(got)
	}
	must[any](nil, pods.Informer().GetIndexer().Delete(small("shop", "a", "", "n2")))
	if got := names(pods.OrphansIn("shop")); got != "d" {
		t.Error(got)
	}
}

// IndexesAgreeWithAScan: a lookup finds what going through all objects would find.
func TestIndexesAgreeWithAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFactory(nil, 0)
		pods := must(Pods(f))
		all := map[string]*corev1.Pod{}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			p := small(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"),
				rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"),
				types.UID(rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "owner")), "")
			key := p.Namespace + "/" + p.Name
			if rapid.Bool().Draw(t, "delete") {
				delete(all, key)
				must[any](nil, pods.Informer().GetIndexer().Delete(p))
				continue
			}
			all[key] = p
			must[any](nil, pods.Informer().GetIndexer().Update(p))
		}
		scan := func(keep func(*corev1.Pod) bool) string {
			var found []*corev1.Pod
			for _, p := range all {
				if keep(p) {
					found = append(found, p)
				}
			}
			return names(found)
		}
		for _, uid := range []types.UID{"1", "2"} {
			want := scan(func(p *corev1.Pod) bool {
				return metav1.GetControllerOf(p) != nil && metav1.GetControllerOf(p).UID == uid && p.Namespace == "x"
			})
			if got := names(pods.OwnedBy("x", uid)); got != want {
				t.Fatalf("owned by %s: %q, want %q", uid, got, want)
			}
		}
		for _, ns := range []string{"x", "y"} {
			want := scan(func(p *corev1.Pod) bool { return metav1.GetControllerOf(p) == nil && p.Namespace == ns })
			if got := names(pods.OrphansIn(ns)); got != want {
				t.Fatalf("orphans in %s: %q, want %q", ns, got, want)
			}
		}
	})
}

func TestReplicaSetsAndDeployments(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	sets, deployments := must(OwnedObjects[*appsv1.ReplicaSet](f)), must(Objects[*appsv1.Deployment](f))
	must[any](nil, sets.Informer().GetIndexer().Add(&appsv1.ReplicaSet{ObjectMeta: small("shop", "rs", "d", "").ObjectMeta}))
	must[any](nil, sets.Informer().GetIndexer().Add(&appsv1.ReplicaSet{ObjectMeta: small("shop", "lone", "", "").ObjectMeta}))
	must[any](nil, deployments.Informer().GetIndexer().Add(&appsv1.Deployment{ObjectMeta: small("shop", "d", "", "").ObjectMeta}))
	if got := names(sets.OwnedBy("shop", "d")) + "|" + names(sets.OrphansIn("shop")) + "|" +
		names(sets.In("shop")); got != "rs|lone|lone rs" {
		t.Error(got)
	}
	if got := names(deployments.In("shop")); got != "d" || deployments.Get("shop", "d") == nil || deployments.Get("shop", "x") != nil {
		t.Error(got)
	}
}

// Several controllers ask for the same caches, even at the same time: they get the same informer, indexed once (CI-9).
func TestCachesAreShared(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	var all sync.WaitGroup
	caches := make([]PodCache, 8)
	for i := range caches {
		all.Go(func() {
			caches[i] = must(Pods(f))
			must(PodsByNode(f))
			must(OwnedObjects[*appsv1.ReplicaSet](f))
		})
	}
	all.Wait()
	for _, c := range caches {
		if c.Informer().GetIndexer() != caches[0].Informer().GetIndexer() {
			t.Error("two informers for pods")
		}
	}
	if n := len(caches[0].Informer().GetIndexer().GetIndexers()); n != 4 { // namespace, controller, orphanage, node
		t.Errorf("%d indexes", n)
	}
}

// Only those who ask for an index pay for it.
func TestIndexesAreAddedOnDemand(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	byNode := must(PodsByNode(f))
	if _, ok := byNode.Informer().GetIndexer().GetIndexers()[byController]; ok {
		t.Error("nobody asked for an index by controller")
	}
}

// An index that cannot be added is an error and not an empty cache.
func TestIndexOfAStoppedInformer(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	informer := f.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	informer.RunWithContext(ctx)
	if _, err := Pods(f); err == nil {
		t.Error("no error")
	}
}

func TestMissingIndexPanics(t *testing.T) {
	defer func() {
		if cause := recover(); !strings.Contains(fmt.Sprint(cause), byController) {
			t.Errorf("panic: %v", cause)
		}
	}()
	f := NewFactory(fake.NewClientset(), 0)
	pods := f.Core().V1().Pods().Informer()
	OwnedStore[*corev1.Pod]{Store[*corev1.Pod]{cached{informer: pods, safe: panics.NewInformer(pods)}}}.OwnedBy("shop", "x")
}

// What has no business in a cache is not found and does no harm.
func TestStrangersInACache(t *testing.T) {
	for _, stranger := range []any{nil, 7, cache.DeletedFinalStateUnknown{Key: "shop/a", Obj: small("shop", "a", "rs", "n")},
		&metav1.Status{}} {
		for _, index := range []cache.IndexFunc{owners()[byController], owners()[byOrphanage], nodeOf} {
			if values, err := index(stranger); err != nil || len(values) != 0 {
				t.Errorf("%v is indexed under %v, %v", stranger, values, err)
			}
		}
	}
	f := NewFactory(fake.NewClientset(), 0)
	pods := must(Pods(f))
	must[any](nil, pods.Informer().GetIndexer().Add(&appsv1.ReplicaSet{ObjectMeta: small("shop", "a", "rs", "").ObjectMeta}))
	if found := pods.OwnedBy("shop", "rs"); len(found) != 0 || pods.Get("shop", "a") != nil {
		t.Errorf("found %v", found)
	}
}

// Through the whole of it: a pod comes from the server, is cached, indexed, changed, gone.
func TestFactoryEndToEnd(t *testing.T) {
	client := fake.NewClientset(projectiontest.FullPod("a"))
	f := NewFactory(client, 0)
	pods := must(Pods(f))
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		t.Fatal("not synced")
	}
	want := projectiontest.FullPod("a")
	want.ManagedFields = nil
	if diff := cmp.Diff(want, pods.Get("shop", "a")); diff != "" {
		t.Error(diff)
	}
	if _, err := client.CoreV1().Pods("shop").Create(ctx, projectiontest.FullPod("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return names(pods.OwnedBy("shop", "rs")) == "a b" })
	if p := pods.Get("shop", "b"); p.ManagedFields != nil {
		t.Error("pods that come later have managedFields")
	}
	if err := client.CoreV1().Pods("shop").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return names(pods.OwnedBy("shop", "rs")) == "b" })
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to be")
		}
	}
}

var _ informers.SharedInformerFactory = NewFactory(nil, 0)

func TestDrawResync(t *testing.T) { // CI-14
	if got := DrawResync(0); got != 0 {
		t.Errorf("drawn %s from nothing", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(1, int64(100*time.Hour)).Draw(t, "least"))
		if got := DrawResync(least); got < least || got >= 2*least {
			t.Fatalf("drawn %s from %s", got, least)
		}
	})
	low, high := 0, 0
	for range 1000 {
		if DrawResync(time.Hour) < 90*time.Minute {
			low++
		} else {
			high++
		}
	}
	if low < 300 || high < 300 {
		t.Errorf("not uniform: %d below the middle, %d above", low, high)
	}
}
