package informers

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

func labeledPod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: labels}}
}

func service(namespace, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
}

// matches is what the indexes must agree with.
func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if has, ok := labels[k]; !ok || has != v {
			return false
		}
	}
	return selector != nil
}

// Services and pods come, go and are relabelled; both lookups always find what a look at all objects finds.
func TestSelectorsAndLabels(t *testing.T) {
	pairs := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "a/b"}), rapid.SampledFrom([]string{"", "x", "y", "x,b"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		f := NewFactory(fake.NewClientset(), 0)
		if rapid.Bool().Draw(t, "compact pods") {
			f = NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)), 0)
		}
		services, pods := must(Services(f)), must(PodsByLabels(f))
		again := must(Services(f)) // another controller may ask, too
		pods.indexes.From = 0
		if rapid.Bool().Draw(t, "without indexes") {
			pods.indexes.Most = 0
		}
		namespace, name := rapid.SampledFrom([]string{"shop", "bank"}), rapid.StringMatching("[a-e]")
		t.Repeat(map[string]func(*rapid.T){
			"put a service": func(t *rapid.T) {
				selector := pairs.Draw(t, "selector")
				if rapid.IntRange(0, 5).Draw(t, "none") == 0 {
					selector = nil
				}
				must[any](nil, services.Informer().GetIndexer().Add(service(namespace.Draw(t, "ns"), name.Draw(t, "name"), selector)))
			},
			"put a pod": func(t *rapid.T) {
				must[any](nil,
					pods.Informer().GetIndexer().Add(labeledPod(namespace.Draw(t, "ns"), name.Draw(t, "name"), pairs.Draw(t, "labels"))))
			},
			"remove": func(t *rapid.T) {
				ns, n := namespace.Draw(t, "ns"), name.Draw(t, "name")
				must[any](nil, services.Informer().GetIndexer().Delete(service(ns, n, nil)))
				must[any](nil, pods.Informer().GetIndexer().Delete(labeledPod(ns, n, nil)))
			},
			"look up": func(t *rapid.T) {
				ns, labels := namespace.Draw(t, "ns"), pairs.Draw(t, "pairs")
				var wantServices []*corev1.Service
				for _, s := range services.In(ns) {
					if matches(s.Spec.Selector, labels) {
						wantServices = append(wantServices, s)
					}
				}
				for _, c := range []ServiceCache{services, again} {
					if got, want := names(c.Selecting(ns, labels)), names(wantServices); got != want {
						t.Fatalf("services for %v: %s, want %s", labels, got, want)
					}
				}
				var wantPods []*corev1.Pod
				for _, p := range pods.In(ns) {
					if matches(labels, p.Labels) {
						wantPods = append(wantPods, p)
					}
				}
				if got, want := names(pods.Selected(ns, labels)), names(wantPods); got != want {
					t.Fatalf("pods for %v: %s, want %s", labels, got, want)
				}
				some := []string{"a", "c", "e"}
				among := slices.DeleteFunc(slices.Clone(wantPods), func(p *corev1.Pod) bool { return !slices.Contains(some, p.Name) })
				if got, want := names(pods.SelectedAmong(ns, labels, slices.Values(some))), names(among); got != want {
					t.Fatalf("pods for %v among %v: %s, want %s", labels, some, got, want)
				}
			},
		})
	})
}

// Each namespace adds some indexes of pods, and no more, so that there are some for all.
func TestManyKeySetsAndWorkers(t *testing.T) {
	pods := must(PodsByLabels(NewFactory(fake.NewClientset(), 0)))
	pods.indexes.From = 1
	const namespaces = 30
	for i := range namespaces {
		must[any](nil, pods.Informer().GetIndexer().Add(labeledPod(fmt.Sprint("shop-", i), "a", map[string]string{"k1": "v", "k150": "v"})))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				want := ""
				if i == 1 || i == 150 {
					want = "a"
				}
				if got := names(pods.Selected(fmt.Sprint("shop-", i%namespaces), map[string]string{fmt.Sprint("k", i): "v"})); got != want {
					t.Errorf("k%d: %q", i, got)
				}
			}
		})
	}
	wg.Wait()
	if n := len(pods.Informer().GetIndexer().GetIndexers()) - 1; n != mostPodIndexes {
		t.Errorf("%d indexes", n)
	}
}

// BenchmarkSelecting is the way from a pod to its services, in a namespace with so many of them. All have a pair in common.
func BenchmarkSelecting(b *testing.B) {
	for _, n := range []int{30, 300, 3000} {
		b.Run(fmt.Sprint(n, "-services"), func(b *testing.B) {
			c := must(Services(NewFactory(fake.NewClientset(), 0)))
			for i := range n {
				must[any](nil,
					c.Informer().GetIndexer().Add(service("shop", fmt.Sprint("s", i),
						map[string]string{"a": "common", "app": fmt.Sprint("s", i)})))
			}
			labels := map[string]string{"a": "common", "app": "s7", "pod-template-hash": "x", "version": "v1"}
			b.ReportAllocs()
			for b.Loop() {
				if got := c.Selecting("shop", labels); len(got) != 1 {
					b.Fatal(got)
				}
			}
		})
	}
}

// BenchmarkSelected is the way from a service to its ten pods, beside so many others of the namespace.
func BenchmarkSelected(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n, "-other-pods"), func(b *testing.B) {
			c := must(PodsByLabels(NewFactory(fake.NewClientset(), 0)))
			fill(c, n+10)
			b.ReportAllocs()
			for b.Loop() {
				if got := c.Selected("shop", map[string]string{"app": "s0"}); len(got) != 10 {
					b.Fatal(len(got))
				}
			}
		})
	}
}

func fill(c LabeledPodCache, n int) {
	for i := range n {
		app := fmt.Sprint("s", i/10)
		must[any](nil, c.Informer().GetIndexer().Add(labeledPod("shop", fmt.Sprint("p", i), map[string]string{
			"app": app, "tier": "web", "version": "v1", "pod-template-hash": "5d4f8c7b9"})))
	}
}
