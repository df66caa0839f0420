package metadata

import (
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// BenchmarkMetadataMemory tells how many bytes are kept for each object: by a handler alone that remembers identities, as a
// graph of owners does, and by it and a watch.
func BenchmarkMetadataMemory(b *testing.B) {
	const objects = 20_000
	for _, c := range []struct {
		name  string
		watch bool
	}{{"handler", false}, {"handler-and-watch", true}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				kept := make(map[identity]struct{}, objects)
				handler := handlerFunc(func(o *metav1.PartialObjectMetadata) { kept[identityOf(o)] = struct{}{} })
				w := newResourceWatch(nil, widgets, &listwatch.Rollbacks{})
				w.feeds = []*feed{newFeed(widgets, handler, nil)}
				w.sink = &sink{w}
				before := heapBytes()
				for n := range objects {
					if o := typicalMetadata(n); c.watch {
						must[any](nil, w.sink.Add(o))
					} else {
						handler(o)
					}
				}
				b.ReportMetric(float64(heapBytes()-before)/objects, "B/object")
				runtime.KeepAlive(w)
				runtime.KeepAlive(kept)
			}
		})
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// typicalMetadata is that of a pod of a Deployment. Its strings are its own, as if it had been decoded.
func typicalMetadata(n int) *metav1.PartialObjectMetadata {
	own := func(s string) string { return string([]byte(s)) }
	o := object(fmt.Sprint("namespace-", n%100), fmt.Sprintf("web-5d4f8c7b9-%05d", n), fmt.Sprintf("11111111-2222-3333-4444-%012d", n))
	o.ResourceVersion = fmt.Sprint(1_000_000 + n)
	o.Labels = map[string]string{own("app.kubernetes.io/name"): fmt.Sprint("web-", n%500), own("pod-template-hash"): fmt.Sprint(n % 500)}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: own("apps/v1"), Kind: own("ReplicaSet"),
		Name: fmt.Sprint("web-5d4f8c7b9-", n%500), UID: "11111111-2222-3333-4444-000000000000"}}
	return o
}
