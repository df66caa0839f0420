package engine

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Writes and reads ask for metadata. A server that answers with the object all the same is understood as well.
func TestAnswersAreMetadata(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "web-x7k2p", GenerateName: "web-", UID: "u", ResourceVersion: "7"}
	encode := func(kind string, o interface{ Marshal() ([]byte, error) }) string {
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		version := "v1"
		if kind == "PartialObjectMetadata" {
			version = "meta.k8s.io/v1"
		}
		data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return "k8s\x00" + string(data)
	}
	const metaJSON = `"metadata":{"namespace":"ns","name":"web-x7k2p","generateName":"web-","uid":"u","resourceVersion":"7"}`
	for _, c := range []struct{ name, contentType, answer string }{
		{"metadata", runtime.ContentTypeProtobuf, encode("PartialObjectMetadata", &metav1.PartialObjectMetadata{ObjectMeta: meta})},
		{"the object", runtime.ContentTypeProtobuf, encode("Pod", &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n"}})},
		{"metadata in JSON", runtime.ContentTypeJSON, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + metaJSON + `}`},
		{"the object in JSON", runtime.ContentTypeJSON, `{"kind":"Pod","apiVersion":"v1",` + metaJSON + `,"spec":{"nodeName":"n"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var accepted string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				accepted = r.Header.Get("Accept")
				w.Header().Set("Content-Type", c.contentType)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			api, err := NewAPI(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: c.contentType}})
			if err != nil {
				t.Fatal(err)
			}
			k, _ := KindOf(&corev1.Pod{})
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "web-"}}
			named := p.DeepCopy()
			named.Name = "a"
			for verb, call := range map[string]func() (plan.Object, error){
				"create": func() (plan.Object, error) { return api.Create(t.Context(), k, p) },
				"update": func() (plan.Object, error) { return api.Update(t.Context(), k, named, true) },
				"patch":  func() (plan.Object, error) { return api.Patch(t.Context(), k, "ns", "a", []byte("{}"), false) },
				"get":    func() (plan.Object, error) { return api.Get(t.Context(), k, "ns", "a") },
			} {
				made, err := call()
				if err != nil || made.GetName() != meta.Name || made.GetUID() != meta.UID || made.GetResourceVersion() != meta.ResourceVersion {
					t.Errorf("%s: %v, %v", verb, made, err)
				}
				if want := c.contentType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1, " + c.contentType; !strings.HasPrefix(accepted, want) {
					t.Errorf("CI-3: %s asks for %q", verb, accepted)
				}
			}
		})
	}
}
