package selectors

import (
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// BenchmarkLabelIndex tells what the indexes of one set of keys cost: bytes for each object, and the time to add them.
func BenchmarkLabelIndex(b *testing.B) {
	const n = 20_000
	objects := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range n {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i),
			Labels: map[string]string{
				"app": fmt.Sprint("s", i/10), "tier": "web", "version": "v1", "pod-template-hash": "5d4f8c7b9"}}}
		if err := objects.Add(o); err != nil {
			b.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sets := 0
	for b.Loop() {
		sets++
		if err := objects.AddIndexers(cache.Indexers{fmt.Sprint("set ", sets): indexByLabels([]string{"app", "tier"})}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n/float64(sets), "B/object")
	runtime.KeepAlive(objects)
}
