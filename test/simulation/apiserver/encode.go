package apiserver

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// encoding is how objects and watch events are written in one media type.
type encoding struct {
	object runtime.Serializer
	stream runtime.Serializer
	framer runtime.Framer
}

// newEncodings returns what the server can write, by media type.
func newEncodings() map[string]encoding {
	all := map[string]encoding{}
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		if info.StreamSerializer != nil && info.MediaType != runtime.ContentTypeYAML {
			all[info.MediaType] = encoding{object: info.Serializer, stream: info.StreamSerializer.Serializer, framer: info.StreamSerializer.Framer}
		}
	}
	return all
}

// frame returns a watch event as it is sent.
func (e encoding) frame(kind string, o runtime.Object) ([]byte, error) {
	object, err := runtime.Encode(e.object, o)
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}
	var buffer bytes.Buffer
	err = e.stream.Encode(event, e.framer.NewFrameWriter(&buffer))
	return buffer.Bytes(), err
}

func metav1Resource(path string) schema.GroupResource { return schema.GroupResource{Resource: path} }

// fieldsOf are the fields by which objects can be selected.
func fieldsOf(o Object) fields.Fields {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch o := o.(type) {
	case *corev1.Pod:
		set["spec.nodeName"], set["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Event:
		set["involvedObject.name"], set["involvedObject.uid"] = o.InvolvedObject.Name, string(o.InvolvedObject.UID)
	}
	return set
}
