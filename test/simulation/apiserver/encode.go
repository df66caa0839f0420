package apiserver

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
			all[info.MediaType] = encoding{object: info.Serializer, stream: info.StreamSerializer.Serializer,
				framer: info.StreamSerializer.Framer}
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

// form is how an answer is to be written.
type form struct {
	mediaType string
	as        string // the kind into which objects are turned; empty for none
}

// accepted is the form of answer that the client likes best. Custom resources are not written as protobuf.
func (c *Client) accepted(req *http.Request, custom bool) form {
	for _, accept := range req.Header.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			mediaType, params, err := mime.ParseMediaType(one)
			if _, known := c.Server.encodings[mediaType]; err != nil || !known ||
				custom && params["as"] == "" && mediaType != runtime.ContentTypeJSON {
				continue
			}
			return form{mediaType, params["as"]}
		}
	}
	return form{mediaType: runtime.ContentTypeJSON}
}

// encode answers with an object in the form that is asked for.
func (c *Client) encode(req *http.Request, code int, o runtime.Object) (*http.Response, error) {
	f := c.accepted(req, isCustom(o))
	if code < 300 {
		o = f.turn(o)
	}
	body, err := runtime.Encode(c.Server.encodings[f.mediaType].object, o)
	if err != nil {
		return nil, err
	}
	contentType := f.mediaType
	if _, ok := o.(*apidiscoveryv2.APIGroupDiscoveryList); ok { // by which clients know that it is this, not a list of groups
		contentType += ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	}
	return answer(req, code, contentType, body), nil
}

func isCustom(o runtime.Object) bool {
	_, custom := o.(runtime.Unstructured)
	return custom
}

// turn leaves of an object, or the objects of a list, nothing but the metadata, if that is asked for.
func (f form) turn(o runtime.Object) runtime.Object {
	if f.as == "PartialObjectMetadata" || f.as == "PartialObjectMetadataList" {
		return asMetadata(o)
	}
	return o
}

func asMetadata(o runtime.Object) runtime.Object {
	if object, ok := o.(Object); ok {
		m := meta.AsPartialObjectMetadata(object)
		m.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return m
	}
	l, ok := o.(metav1.ListInterface)
	if _, status := o.(*metav1.Status); status || !ok {
		return o
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{
		ResourceVersion: l.GetResourceVersion(), Continue: l.GetContinue(), RemainingItemCount: l.GetRemainingItemCount(),
	}}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	_ = meta.EachListItem(o, func(item runtime.Object) error {
		if object, ok := item.(Object); ok {
			m := meta.AsPartialObjectMetadata(object)
			m.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
			list.Items = append(list.Items, *m)
		}
		return nil
	})
	return list
}
