package projection

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Protobuf of the Kubernetes API is, after a magic, a runtime.Unknown with the object in it. All encoders write the
// type first, then the object, then the encoding and the content type, both empty and both there (or neither).
const (
	magic   = "k8s\x00"
	trailer = "\x1a\x00\x22\x00"
)

// Kinds says how the objects of each kind are decoded. A list is a kind of its own, with paths such as
// "items.metadata.name".
type Kinds map[schema.GroupVersionKind]Kind

// Kind says how objects of one kind are decoded.
type Kind struct {
	Mask *Mask
	// Decode, if set, decodes what the mask has left of an object when the caller gives no object to decode into, as
	// in a watch. It must not keep the data.
	Decode func(data []byte) (runtime.Object, error)
}

// Codec returns a serializer like base that decodes from protobuf only what the masks keep of the given kinds. JSON
// is decoded whole. Encoding does not change.
func Codec(base runtime.NegotiatedSerializer, kinds Kinds) (runtime.NegotiatedSerializer, error) {
	c := &codec{NegotiatedSerializer: base, kinds: map[string]named{}}
	c.buffers.New = func() any { return new([]byte) }
	for name, kind := range kinds {
		header := runtime.TypeMeta{APIVersion: name.GroupVersion().String(), Kind: name.Kind}
		encoded, err := header.Marshal()
		if err != nil {
			return nil, fmt.Errorf("mask of %s: %w", name.Kind, err)
		}
		c.kinds[string(encoded)] = named{kind, name}
	}
	return c, nil
}

// codec decodes what the API server sends, with the masks of the kinds that it knows.
type codec struct {
	runtime.NegotiatedSerializer
	kinds   map[string]named // by the encoded TypeMeta
	buffers sync.Pool        // of *[]byte, for what is left of the data
}

// named is a kind that has a mask, and its name.
type named struct {
	Kind
	name schema.GroupVersionKind
}

// mostKept is the size up to which a buffer is kept for the next object.
const mostKept = 1 << 20

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c *codec) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		if all[i].MediaType != runtime.ContentTypeProtobuf {
			continue
		}
		all[i].Serializer = &objects{all[i].Serializer, c}
		if stream := all[i].StreamSerializer; stream != nil {
			replaced := *stream
			replaced.Serializer = frames{stream.Serializer}
			all[i].StreamSerializer = &replaced
		}
	}
	return all
}

// objects decodes objects, behind the mask of their kind.
type objects struct {
	runtime.Serializer
	codec *codec
}

// Decode implements runtime.Decoder.
func (s *objects) Decode(data []byte, kind *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	buffer := s.codec.buffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= mostKept {
			s.codec.buffers.Put(buffer)
		}
	}()
	k, at, ok := s.codec.open(data)
	if !ok {
		return s.Serializer.Decode(data, kind, into)
	}
	field, _ := next(data[at:])
	masked, ok := k.Mask.root.appendNested(append((*buffer)[:0], data[:at]...), data[at:at+field.end], field)
	if *buffer = masked; !ok {
		return s.Serializer.Decode(data, kind, into)
	}
	if into == nil && k.Decode != nil {
		o, err := k.Decode(masked[at+field.value:])
		return o, &k.name, err
	}
	return s.Serializer.Decode(masked, kind, into)
}

// open looks up the kind of an object, and where in the data the field begins that has the object in it. It is not ok
// if the kind is none of ours, or the data is not what all encoders write.
func (c *codec) open(data []byte) (k named, object int, ok bool) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return k, 0, false
	}
	header, ok := next(data[len(magic):])
	if !ok || header.number != 1 || !header.bytes {
		return k, 0, false
	}
	object = len(magic) + header.end
	if k, ok = c.kinds[string(data[len(magic)+header.value:object])]; !ok {
		return k, 0, false
	}
	field, ok := next(data[object:])
	if !ok || field.number != 2 || !field.bytes {
		return k, 0, false
	}
	rest := string(data[object+field.end:])
	return k, object, rest == "" || rest == trailer
}

// frames decodes the events of a watch. The object in an event is not copied: it is part of the data, and is valid
// until the next event is decoded. client-go's decoder of watches, which asks for metav1.WatchEvent, has decoded it
// by then.
type frames struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (f frames) Decode(data []byte, kind *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok && readEvent(data, event) {
		return event, kind, nil
	}
	return f.Serializer.Decode(data, kind, into)
}

// readEvent reads an event as all encoders write it: the type, then the object.
func readEvent(data []byte, event *metav1.WatchEvent) bool {
	name, ok := next(data)
	if !ok || name.number != 1 || !name.bytes {
		return false
	}
	extension, ok := next(data[name.end:])
	if !ok || extension.number != 2 || !extension.bytes || name.end+extension.end != len(data) {
		return false
	}
	inner := data[name.end+extension.value:]
	raw, ok := next(inner)
	if !ok || raw.number != 1 || !raw.bytes || raw.end != len(inner) {
		return false
	}
	event.Type = string(data[name.value:name.end])
	event.Object.Raw = inner[raw.value:]
	return true
}
