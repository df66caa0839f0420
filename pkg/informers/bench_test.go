package informers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// sizes are the numbers of objects that lookups are tried with. None may get slower with them.
func sizes() []int { return []int{100, 1000, 10_000} }

// BenchmarkLookups finds ten pods, or one, among so many.
func BenchmarkLookups(b *testing.B) {
	for _, n := range sizes() {
		f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)), 0)
		pods, byNode, ending := must(Pods(f)), must(PodsByNode(f)), must(EndingPods(f))
		for i := range n {
			p := small("shop", fmt.Sprint("p", i), types.UID(fmt.Sprint("rs", i/10)), fmt.Sprint("n", i/10))
			if i < 10 {
				p = small("bank", fmt.Sprint("p", i), "", fmt.Sprint("n", i/10))
				p.Status.Phase = corev1.PodSucceeded
			}
			must[any](nil, pods.Informer().GetIndexer().Add(p))
		}
		for _, c := range []struct {
			name string
			look func() (found int)
			want int
		}{
			{"get", func() int { return len(pods.Get("bank", "p3").Labels) }, 0},
			{"owned-by", func() int { return len(pods.OwnedBy("shop", "rs3")) }, 10},
			{"orphans-in", func() int { return len(pods.OrphansIn("bank")) }, 10},
			{"on-node", func() int { return len(byNode.OnNode("n3")) }, 10},
			{"finished", func() int { return len(ending.Finished()) }, 10},
		} {
			b.Run(fmt.Sprintf("%s-%d-pods", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if found := c.look(); found != c.want {
						b.Fatal(found)
					}
				}
			})
		}
	}
}

// BenchmarkUpdate is what a change of a pod costs its cache with the indexes of all controllers.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range sizes() {
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			f := NewFactory(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)), 0)
			pods, _ := must(Pods(f)), must(EndingPods(f))
			labeled := must(PodsByLabels(f))
			labeled.Selected("shop", map[string]string{"app": "s0"})
			for i := range n {
				must[any](nil, pods.Informer().GetIndexer().Add(indexed(i, "1")))
			}
			i, versions := 0, []*corev1.Pod{indexed(3, "2"), indexed(3, "3")}
			b.ReportAllocs()
			for b.Loop() {
				i++
				must[any](nil, pods.Informer().GetIndexer().Update(versions[i%2]))
			}
		})
	}
}

// indexed is a pod that is in the indexes by owner, node and label.
func indexed(i int, version string) *corev1.Pod {
	p := small("shop", fmt.Sprint("p", i), types.UID(fmt.Sprint("rs", i/10)), fmt.Sprint("n", i%50))
	p.Labels, p.ResourceVersion = map[string]string{"app": fmt.Sprint("s", i/10)}, version
	return p
}
