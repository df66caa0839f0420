package panics

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// follow runs an informer of pods, of which the one called "bad" makes a handler and an index function panic while bad is true.
func follow(t *testing.T, bad func(o any) bool) (client *fake.Clientset, informer Informer, heard func() []string) {
	client = fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer = NewInformer(factory.Core().V1().Pods().Informer())
	err := informer.AddIndexers(cache.Indexers{"names": func(o any) ([]string, error) {
		if bad(o) {
			panic("index")
		}
		return []string{o.(metav1.Object).GetName()}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var told []string
	hear := func(word string) func(o any) {
		return func(o any) {
			if bad(o) {
				panic("handler")
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, word+o.(metav1.Object).GetName())
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: hear("+"), UpdateFunc: func(_, o any) { hear("~")(o) },
		DeleteFunc: hear("-")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	return client, informer, func() (all []string) {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all, told = told, nil
		return all
	}
}

// A panic over one object ends at that object; other objects, and later events of the same one, are as ever. Lookups where it would be
// missing fail, and no others do, until its index function has placed it or it is gone.
func TestPanicsEndAtTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Place
		Observe(func(p Place) { seen = append(seen, p) })
		defer observer.Store(nil)
		before := Total()
		isBad := true
		client, informer, heard := follow(t, func(o any) bool { return isBad && o.(metav1.Object).GetName() == "bad" })
		synctest.Wait()
		pods := func(namespace string) interface {
			Create(context.Context, *corev1.Pod, metav1.CreateOptions) (*corev1.Pod, error)
			Update(context.Context, *corev1.Pod, metav1.UpdateOptions) (*corev1.Pod, error)
			Delete(context.Context, string, metav1.DeleteOptions) error
		} {
			return client.CoreV1().Pods(namespace)
		}
		for _, p := range []*corev1.Pod{pod("shop", "bad"), pod("shop", "good"), pod("other", "good")} {
			if _, err := pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := heard(); !slices.Equal(got, []string{"+good", "+good"}) {
			t.Errorf("told %v", got)
		}
		slices.Sort(seen)
		if !slices.Equal(seen, []Place{Handler, Index}) || Total()-before != 2 {
			t.Errorf("%v, %d", seen, Total()-before)
		}
		if err := informer.Sound("names", "shop"); err == nil || !strings.Contains(err.Error(), "shop/bad") {
			t.Errorf("its namespace: %v", err)
		}
		for _, index := range []string{"names", ""} {
			if err := errors.Join(informer.Sound(index, "other"), informer.Sound("another", "shop")); err != nil {
				t.Errorf("another namespace or index: %v", err)
			}
			if informer.Sound(index, "") == nil {
				t.Error("all namespaces are complete")
			}
		}
		isBad = false
		newer := pod("shop", "bad")
		newer.ResourceVersion = "2"
		if _, err := pods("shop").Update(t.Context(), newer, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := heard(); !slices.Equal(got, []string{"~bad"}) {
			t.Errorf("told %v", got)
		}
		if found, err := informer.GetIndexer().ByIndex("names", "bad"); len(found) != 1 || err != nil || informer.Sound("", "") != nil {
			t.Errorf("%v, %v, %v", found, err, informer.Sound("", ""))
		}
		isBad = true
		if err := pods("shop").Delete(t.Context(), "bad", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := heard(); got != nil || informer.Sound("", "") != nil {
			t.Errorf("gone: %v, %v", got, informer.Sound("", ""))
		}
	})
}

// What is looked up is no object of the cache: whoever looks bears its panic.
func TestLookupsPanic(t *testing.T) {
	f := (&unplaced{by: map[string]map[string]version{}}).indexFunc("x", func(any) ([]string, error) { panic("lookup") })
	defer func() {
		if cause := recover(); cause != "lookup" {
			t.Errorf("%v", cause)
		}
	}()
	_, _ = f(struct{}{})
	t.Error("returned")
}

func TestTransform(t *testing.T) {
	bad := pod("shop", "bad")
	f := TransformFunc(func(o any) (any, error) {
		if o == any(bad) {
			panic("transform")
		}
		return "transformed", errors.New("x")
	})
	if got, err := f(bad); got != any(bad) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := f(pod("shop", "good")); got != "transformed" || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}

// An object that cannot even say its name makes no second panic.
func TestNameOf(t *testing.T) {
	var none *corev1.Pod
	for want, o := range map[string]any{
		"*v1.Pod": none, "<nil>": nil, "*v1.Pod shop/web": pod("shop", "web"),
		"*v1.Pod shop/gone": cache.DeletedFinalStateUnknown{Key: "shop/gone", Obj: pod("shop", "gone")},
	} {
		if got := nameOf(o); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
