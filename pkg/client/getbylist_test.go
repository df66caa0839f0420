package client

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whoever may not get objects reads one by a list with a selector of its name, into whatever Get takes. An empty list says that
// there is none.
func TestGetByList(t *testing.T) {
	pods := builtIn(t, &corev1.Pod{})
	a := plan.Key{Namespace: "ns", Name: "a"}
	const object = `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"ns","name":"a","uid":"u"}}`
	for _, c := range []struct {
		name, version, kind, list string
		m                         Mapping
		into                      plan.Object
	}{
		{"typed", "v1", "Pod", "v1 PodList", pods, &corev1.Pod{}},
		{"metadata", "meta.k8s.io/v1", "PartialObjectMetadata", "meta.k8s.io/v1 PartialObjectMetadataList", pods,
			&metav1.PartialObjectMetadata{}},
		{"custom", "example.com/v1", "Widget", "example.com/v1 WidgetList", widgets, &unstructured.Unstructured{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var version, kind string
			if _, err := fmt.Sscan(c.list, &version, &kind); err != nil {
				t.Fatal(err)
			}
			list := func(items string) string {
				return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"},"items":[%s]}`, version, kind, items)
			}
			server, config := startRecorder(t, list(fmt.Sprintf(object, c.version, c.kind)))
			reader := newClients(t, config, Options{GetByList: true}).Reader()
			if err := reader.Get(t.Context(), c.m, a, c.into); err != nil || c.into.GetName() != "a" || c.into.GetUID() != "u" {
				t.Errorf("%v, %+v", err, c.into)
			}
			if got := server.sent.URL.Query().Get("fieldSelector"); got != "metadata.name=a" {
				t.Errorf("it has asked for %s", server.sent.URL)
			}
			other := plan.Key{Namespace: "ns", Name: "b"}
			if err := reader.Get(t.Context(), c.m, other, c.into); err == nil || IsAbsent(err) || !strings.Contains(err.Error(), "selector") {
				t.Errorf("another object than was asked for: %v", err)
			}
			server.answer = list("")
			if err := reader.Get(t.Context(), c.m, a, c.into); !IsAbsent(err) {
				t.Errorf("an empty list: %v", err)
			}
			server.answer, server.status = "404 page not found", 404
			if err := reader.Get(t.Context(), c.m, a, c.into); err == nil || IsAbsent(err) {
				t.Errorf("a resource that is not served: %v", err)
			}
		})
	}
}
