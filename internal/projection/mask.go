package projection

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Mask says which fields of a message are decoded. It is made by [Only] or [Without].
type Mask struct{ root *message }

// message says what becomes of the fields of a protobuf message.
type message struct {
	fields []field // by number
	others action  // about those beyond
}

// field is what becomes of one field of a message.
type field struct {
	action
	isMap bool
	// inner says what is wanted of the message in the field, and keys which entries of the map.
	inner *message
	keys  []string // if pick
}

// action is what is done with a field.
type action uint8

const (
	drop    action = iota
	keep           // as a whole
	inspect        // keep what is wanted of the message in it
	pick           // of a map from string to string, keep the entries with certain keys
)

// Only returns a mask that keeps the given fields and drops all others. A path is made of the names that fields have
// in JSON, such as "spec.containers.ports"; it leads through lists. It keeps a field with all that is in it; of a map
// from string to string it may keep the entry with one key: "metadata.annotations[example.com/cost]". It fails if the
// type of the example, a struct or a pointer to one, has no such field.
func Only(example any, paths ...string) (*Mask, error) { return newMask(example, drop, keep, paths) }

// Without returns a mask that drops the given fields and keeps all others.
func Without(example any, paths ...string) (*Mask, error) { return newMask(example, keep, drop, paths) }

// Apply returns what the mask keeps of an encoded object, or all of it if the mask is nil or does not understand the
// data.
func (m *Mask) Apply(encoded []byte) []byte {
	if m == nil {
		return encoded
	}
	kept, ok := m.root.appendTo(make([]byte, 0, len(encoded)), encoded)
	if !ok {
		return encoded
	}
	return kept
}

// newMask makes a mask in which the listed paths are treated in one way and all others in another one.
func newMask(example any, others, listed action, paths []string) (*Mask, error) {
	root := newMessage(reflect.TypeOf(example), others)
	for _, path := range paths {
		path, key, keyed := strings.Cut(path, "[")
		if keyed && (listed != keep || !strings.HasSuffix(key, "]")) {
			return nil, fmt.Errorf("mask of %T: %s: a key cannot be dropped", example, path)
		}
		at, in := root, reflect.TypeOf(example)
		names := strings.Split(path, ".")
		for i, name := range names {
			number, within, err := lookUp(in, name)
			if err != nil {
				return nil, fmt.Errorf("mask of %T: %s: %w", example, path, err)
			}
			f := at.field(number)
			switch last := i == len(names)-1; {
			case !last:
				if f.inner == nil {
					*f = field{action: inspect, inner: newMessage(within, others)}
				}
				at, in = f.inner, within
			case keyed && within != reflect.TypeFor[map[string]string]():
				return nil, fmt.Errorf("mask of %T: %s: no map of strings", example, path)
			case keyed:
				*f = field{action: pick, isMap: true, keys: append(f.keys, strings.TrimSuffix(key, "]"))}
			default:
				*f = field{action: listed, isMap: f.isMap}
			}
		}
	}
	return &Mask{root}, nil
}

// newMessage returns what becomes of a message of that type, or of a list of them, when no field is named: all have
// one action.
func newMessage(of reflect.Type, others action) *message {
	m := &message{others: others}
	if of = elementType(of); of == nil || of.Kind() != reflect.Struct {
		return m
	}
	for i := range of.NumField() {
		if f := of.Field(i); f.Type.Kind() == reflect.Map {
			if number, err := numberOf(f); err == nil {
				m.field(number).isMap = true
			}
		}
	}
	return m
}

// elementType returns the type that a pointer or a list leads to.
func elementType(in reflect.Type) reflect.Type {
	for in != nil && (in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice) {
		in = in.Elem()
	}
	return in
}

// numberOf reads the number of a field from its tag, such as "bytes,1,opt,name=metadata".
func numberOf(f reflect.StructField) (int, error) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0, fmt.Errorf("%s has no number", f.Name)
	}
	return strconv.Atoi(parts[1])
}

// lookUp finds the number and the type of a field by its name in the protobuf tags that API types have.
func lookUp(in reflect.Type, name string) (number int, within reflect.Type, err error) {
	if in = elementType(in); in == nil || in.Kind() != reflect.Struct {
		return 0, nil, fmt.Errorf("%v has no fields", in)
	}
	named := ",name=" + name
	for i := range in.NumField() {
		f := in.Field(i)
		if _, rest, ok := strings.Cut(f.Tag.Get("protobuf"), named); ok && (rest == "" || rest[0] == ',') {
			number, err = numberOf(f)
			return number, f.Type, err
		}
	}
	return 0, nil, fmt.Errorf("%v has no field %q", in, name)
}

// field returns the field of that number, to be changed.
func (m *message) field(number int) *field {
	for len(m.fields) <= number {
		m.fields = append(m.fields, field{action: m.others})
	}
	return &m.fields[number]
}

// mostFields is the highest number that a protobuf field can have. Decoders make others of higher ones.
const mostFields = 1<<29 - 1

// element is one field of an encoded message: data[:tag] is its tag, data[tag:value] its length, if it has one (bytes),
// and data[value:end] its value.
type element struct {
	number          uint64
	bytes           bool
	tag, value, end int
}

// next reads the first field of data. It is not ok if the data is damaged or unusual.
func next(data []byte) (e element, ok bool) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return e, false
	}
	e = element{number: tag >> 3, tag: n, value: n}
	if e.number == 0 || e.number > mostFields {
		return e, false
	}
	switch tag & 7 {
	case 0:
		_, size := binary.Uvarint(data[n:])
		e.end = n + size
		return e, size > 0
	case 1:
		e.end = n + 8
	case 5:
		e.end = n + 4
	case 2:
		length, size := binary.Uvarint(data[n:])
		if size <= 0 || length > uint64(len(data)-n-size) {
			return e, false
		}
		e.bytes, e.value = true, n+size
		e.end = e.value + int(length)
	default:
		return e, false
	}
	return e, e.end <= len(data)
}

// appendTo appends to dst what is wanted of an encoded message; that is never more than the message. Not ok means that
// the message is to be decoded whole.
func (m *message) appendTo(dst, data []byte) (out []byte, ok bool) {
	for len(data) > 0 {
		e, ok := next(data)
		if !ok {
			return dst, false
		}
		f := field{action: m.others}
		if e.number < uint64(len(m.fields)) {
			f = m.fields[e.number]
		}
		switch {
		case f.isMap && f.action != drop && !isEntry(data[e.value:e.end], e):
			return dst, false
		case f.action == inspect:
			if dst, ok = f.inner.appendNested(dst, data[:e.end], e); !ok {
				return dst, false
			}
		case f.action == keep, f.action == pick && wanted(data[e.value:e.end], f.keys):
			dst = append(dst, data[:e.end]...)
		}
		data = data[e.end:]
	}
	return dst, true
}

// appendNested does the same for a field that is a message. The new length takes as many bytes as the old one, although
// fewer might do, because it is known only when the value has been written.
func (m *message) appendNested(dst, data []byte, e element) (out []byte, ok bool) {
	if !e.bytes {
		return dst, false
	}
	dst = append(dst, data[:e.value]...)
	begin := len(dst)
	if dst, ok = m.appendTo(dst, data[e.value:]); !ok {
		return dst, false
	}
	length := len(dst) - begin
	for at := begin - (e.value - e.tag); at < begin; at++ {
		dst[at] = byte(length) | 0x80
		length >>= 7
	}
	dst[begin-1] &^= 0x80
	return dst, true
}

// isEntry reports whether an element of a map has nothing but keys and values, all of them within it. The decoders do
// not look at the type of these, and read a key or a value that is longer than the entry from what follows the entry.
func isEntry(entry []byte, e element) bool {
	for len(entry) > 0 {
		part, ok := next(entry)
		if !ok || !part.bytes || part.number > 2 {
			return false
		}
		entry = entry[part.end:]
	}
	return e.bytes
}

// wanted reports whether the entry of a map is to be kept: its key is among the given ones, or it is not written as all
// encoders write it, key and value, and better left to the decoder.
func wanted(entry []byte, keys []string) bool {
	key, ok := next(entry)
	if !ok || key.number != 1 || !key.bytes {
		return true
	}
	value, ok := next(entry[key.end:])
	if !ok || value.number != 2 || !value.bytes || key.end+value.end != len(entry) {
		return true
	}
	for _, k := range keys {
		if string(entry[key.value:key.end]) == k {
			return true
		}
	}
	return false
}
