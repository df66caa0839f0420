package podcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// stream answers every request with the same bytes.
type stream []byte

func (s stream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(s)), Request: r,
		Header: http.Header{"Content-Type": {apiruntime.ContentTypeProtobuf + ";stream=watch"}}}, nil
}

// BenchmarkWatch reads a watch of 20,000 pods, and one of as many nodes; ns/op are for all of them.
func BenchmarkWatch(b *testing.B) {
	const n = 20000
	pod, node := frame(b, "ADDED", projectiontest.FullPod("a")), frame(b, "ADDED", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	bookmark := frame(b, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}})
	for name, frame := range map[string][]byte{"pods": pod, "nodes": node} {
		for how, begin := range map[string][]byte{"before a bookmark": nil, "after one": bookmark} {
			b.Run(fmt.Sprint(name, ", ", how), func(b *testing.B) {
				config := &rest.Config{Host: "http://api", QPS: -1,
					Transport:     stream(append(bytes.Clone(begin), bytes.Repeat(frame, n)...)),
					ContentConfig: rest.ContentConfig{ContentType: apiruntime.ContentTypeProtobuf}}
				client := must(listwatch.NewClient(config, sample))
				source := must(newPodSource(client))
				source.interner, source.known = newInterner(nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
				lw := client.Pods(source.list, source.watch, source.convert)
				if name == "nodes" {
					lw = must(client.ListWatch(corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes"),
						"", "nodes"))
				}
				for b.Loop() {
					w := must(lw.WatchWithContext(b.Context(), metav1.ListOptions{AllowWatchBookmarks: true}))
					for range w.ResultChan() {
					}
				}
			})
		}
	}
}

// frame is an event as it is sent.
func frame(b *testing.B, event string, o apiruntime.Object) []byte {
	e := &metav1.WatchEvent{Type: event, Object: apiruntime.RawExtension{Raw: projectiontest.Encode(b, o)}}
	data := must(e.Marshal())
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}
