package podcache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// listing answers every request with a list in protobuf.
type listing []byte

func (s listing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(s)), Request: r,
		Header: http.Header{"Content-Type": {apiruntime.ContentTypeProtobuf}}}, nil
}

// BenchmarkList lists 20,000 pods: decoded while the list arrives, or whole, through the mask of lists that other kinds have. It
// reports the most that the heap grows by meanwhile, and what stays.
func BenchmarkList(b *testing.B) {
	const n = 20_000
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range n {
		p := projectiontest.FullPod(fmt.Sprint("p", i))
		p.ResourceVersion = fmt.Sprint(i + 1)
		list.Items = append(list.Items, *p)
	}
	config := &rest.Config{Host: "http://api", QPS: -1, Transport: listing(projectiontest.Encode(b, list)),
		ContentConfig: rest.ContentConfig{ContentType: apiruntime.ContentTypeProtobuf}}
	list = nil
	client := must(listwatch.NewClient(config, sample))
	source := must(newPodSource(client))
	whole := must(client.ListWatch(corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods"), "", "pods"))
	for name, do := range map[string]func(context.Context) []any{
		"while it arrives": func(ctx context.Context) (all []any) {
			return append(all, must(source.list(ctx, metav1.ListOptions{})))
		},
		"whole": func(ctx context.Context) (all []any) {
			pods := must(whole.ListWithContext(ctx, metav1.ListOptions{})).(*corev1.PodList)
			for i := range pods.Items {
				all = append(all, source.share(&pods.Items[i]))
			}
			return all
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var most, kept uint64
			for b.Loop() {
				source.interner, source.known = newInterner(nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
				before := projectiontest.HeapInUse()
				peak := watchHeap()
				all := do(b.Context())
				most = max(most, peak()-before)
				kept = projectiontest.HeapInUse() - before
				runtime.KeepAlive(all)
			}
			b.ReportMetric(float64(most)/(1<<20), "MB-peak")
			b.ReportMetric(float64(kept)/(1<<20), "MB-kept")
		})
	}
}

// watchHeap looks at the heap a thousand times a second, while there is as much room for garbage as the manager has.
func watchHeap() (peak func() uint64) {
	percent := debug.SetGCPercent(60)
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		var seen uint64
		for {
			runtime.ReadMemStats(&m)
			seen = max(seen, m.HeapAlloc)
			select {
			case <-done:
				most <- seen
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		debug.SetGCPercent(percent)
		return <-most
	}
}
