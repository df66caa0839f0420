package projection

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// BenchmarkWatchEvent decodes an event of a watch with a pod of 4 KB, up to the object in it.
func BenchmarkWatchEvent(b *testing.B) {
	p := projectiontest.FullPod("web-6d4b9-abcde")
	for i := range 40 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprint("SETTING_NUMBER_", i), Value: "a value of thirty characters..."})
	}
	event := &metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: projectiontest.Encode(b, p)}}
	data, err := event.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	plain, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	for _, c := range []struct {
		name    string
		decoder runtime.Decoder
	}{{"copied", plain.StreamSerializer}, {"in place", frames{plain.StreamSerializer.Serializer}}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var got metav1.WatchEvent
				if _, _, err := c.decoder.Decode(data, nil, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
