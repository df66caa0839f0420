package projection

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"keep": "1", "drop": "2"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
			{Name: "c", Image: strings.Repeat("i", 300), Ports: []corev1.ContainerPort{{Name: "p", ContainerPort: 1}}}, {Name: "d"}}},
		Status: corev1.PodStatus{Phase: "Running", Message: "m"},
	}
}

// masked is what is left of a pod.
func masked(t *testing.T, m *Mask, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	cut, ok := m.root.appendTo(nil, data)
	if !ok || len(cut) > len(data) {
		t.Fatalf("ok %t, %d of %d bytes", ok, len(cut), len(data))
	}
	left := &corev1.Pod{}
	if err := left.Unmarshal(cut); err != nil {
		t.Fatal(err)
	}
	return left
}

func TestMasks(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(any, ...string) (*Mask, error)
		path []string
		want func(p *corev1.Pod)
	}{
		{"nothing", Only, nil, func(p *corev1.Pod) { *p = corev1.Pod{} }},
		{"all", Without, nil, func(*corev1.Pod) {}},
		{"one field", Only, []string{"metadata.name"}, func(p *corev1.Pod) { *p = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}} }},
		{"a whole message", Only, []string{"status"}, func(p *corev1.Pod) { *p = corev1.Pod{Status: p.Status} }},
		{"fields of each in a list", Only, []string{"spec.containers.name", "spec.containers.ports"}, func(p *corev1.Pod) {
			*p = corev1.Pod{Spec: corev1.PodSpec{Containers: p.Spec.Containers}}
			p.Spec.Containers[0].Image = ""
		}},
		{"an entry of a map", Only, []string{"metadata.annotations[keep]", "metadata.annotations[missing]", "metadata.name"},
			func(p *corev1.Pod) {
				*p = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"keep": "1"}}}
			}},
		{"all but", Without, []string{"metadata.labels", "spec.containers.image", "status.message"}, func(p *corev1.Pod) {
			p.Labels, p.Spec.Containers[0].Image, p.Status.Message = nil, "", ""
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.make(corev1.Pod{}, c.path...)
			if err != nil {
				t.Fatal(err)
			}
			want := pod("a")
			c.want(want)
			if diff := cmp.Diff(want, masked(t, m, pod("a"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A field that does not exist, because it was renamed or misspelt, is noticed when the mask is made.
func TestPathsThatLeadNowhere(t *testing.T) {
	for _, path := range []string{"", "metadata.nam", "metadata.name.x", "spec.containers.x", "metadata.name[key]", "metadata.labels[key",
		"x"} {
		if _, err := Only(&corev1.Pod{}, path); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	if _, err := Without(&corev1.Pod{}, "metadata.labels[key]"); err == nil {
		t.Error("a key can be dropped")
	}
	if _, err := Only(7, "x"); err == nil {
		t.Error("a number has fields")
	}
	if _, err := Only(nil, "x"); err == nil {
		t.Error("nil has fields")
	}
}

func TestUnusualDataIsLeftToTheDecoder(t *testing.T) {
	m, err := Only(corev1.Pod{}, "metadata.name")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"a group":                       "\x0b\x0c",
		"a field without number":        "\x00\x00",
		"a number beyond all":           "\xff\xff\xff\xff\xff\x01\x00",
		"a length beyond the data":      "\x12\x05a",
		"a tag that breaks off":         "\x92",
		"a number that breaks off":      "\x08\x92",
		"a fixed number that breaks of": "\x15\x00",
		"a message that is a number":    "\x08\x01",
		"damage within":                 "\x0a\x02\x0a\x05",
		"a tag of more than 64 bits":    strings.Repeat("\xff", 10) + "\x01",
	} {
		if out, ok := m.root.appendTo(nil, []byte(data)); ok {
			t.Errorf("%s: %q", name, out)
		}
	}
	if out, ok := m.root.appendTo(nil, []byte("\x12\x01a\x15abcd\x19abcdefgh\x20\x01")); !ok || len(out) != 0 {
		t.Errorf("what is not wanted: %q, %t", out, ok)
	}
}

// A message may shrink to a length that would take fewer bytes.
func TestLengthsKeepTheirWidth(t *testing.T) {
	m, err := Only(corev1.Pod{}, "spec.nodeName")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 100, 127, 128, 1 << 14, 1 << 20} {
		p := pod("a")
		p.Spec.Containers[0].Image = strings.Repeat("i", n)
		if got := masked(t, m, p); got.Spec.NodeName != "n" || got.Spec.Containers != nil {
			t.Errorf("of %d: %v", n, got.Spec)
		}
	}
}

var podList = runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}

func encodedList(t testing.TB, n int) (*corev1.PodList, []byte) {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c"}}
	for i := range n {
		list.Items = append(list.Items, *pod(fmt.Sprint("p", i)))
	}
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &b); err != nil {
		t.Fatal(err)
	}
	return list, b.Bytes()
}

func readNames(t testing.TB, r io.Reader) (metav1.ListMeta, []string, error) {
	m, err := Only(corev1.Pod{}, "metadata.name")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	meta, err := ReadList(r, podList, m, func(item []byte) error {
		p := &corev1.Pod{}
		err := p.Unmarshal(item)
		names = append(names, p.Name)
		if p.UID != "" {
			t.Error("the mask was not applied")
		}
		return err
	})
	return meta, names, err
}

func TestReadList(t *testing.T) {
	list, data := encodedList(t, 300)
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(data), "bytewise": iotest.OneByteReader(bytes.NewReader(data))} {
		meta, names, err := readNames(t, r)
		if err != nil || len(names) != 300 || names[7] != "p7" || meta != list.ListMeta {
			t.Errorf("%s: %v, %d, %v", name, meta, len(names), err)
		}
	}
	_, empty := encodedList(t, 0)
	if meta, names, err := readNames(t, bytes.NewReader(empty)); err != nil || len(names) != 0 || meta.ResourceVersion != "7" {
		t.Errorf("empty: %v, %v, %v", meta, names, err)
	}
}

// Wherever a list breaks off, that is an error, unless nothing but what follows the list is missing.
func TestListThatBreaksOff(t *testing.T) {
	_, data := encodedList(t, 3)
	for n := range len(data) - len(trailer) {
		if _, names, err := readNames(t, bytes.NewReader(data[:n])); err == nil {
			t.Fatalf("%d of %d bytes are %v", n, len(data), names)
		}
	}
	broken := errors.New("broken")
	if _, _, err := readNames(t, io.MultiReader(bytes.NewReader(data[:100]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestListsThatAreNone(t *testing.T) {
	for name, data := range map[string]string{
		"JSON":              `{"kind":"PodList","apiVersion":"v1"}`,
		"another kind":      "k8s\x00\n\f\n\x02v1\x12\x06Status\x12\x00",
		"no type":           "k8s\x00\x12\x00",
		"two lists":         "k8s\x00\n\r\n\x02v1\x12\x07PodList\x12\x00\x12\x00",
		"no list":           "k8s\x00\n\r\n\x02v1\x12\x07PodList",
		"a length too long": "k8s\x00\n\r\n\x02v1\x12\x07PodList\x12\x02\x0a\x05",
		"a huge item":       "k8s\x00\n\r\n\x02v1\x12\x07PodList\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\xff\x07",
		"nothing":           "",
	} {
		if _, names, err := readNames(t, strings.NewReader(data)); err == nil {
			t.Errorf("%s: %v", name, names)
		}
	}
	if _, _, err := readNames(t, strings.NewReader("{  }")); !errors.Is(err, ErrUnusual) {
		t.Errorf("JSON: %v", err)
	}
}

// FuzzReadList makes sure that what the full decoder says of a list, this one says too, if it says anything.
func FuzzReadList(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		_, data := encodedList(f, n)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	all, err := Without(corev1.Pod{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := &corev1.PodList{}
		meta, err := ReadList(bytes.NewReader(data), podList, all, func(item []byte) error {
			p := corev1.Pod{}
			err := p.Unmarshal(item)
			got.Items = append(got.Items, p)
			return err
		})
		if err != nil {
			return
		}
		want := &corev1.PodList{}
		if _, _, err := whole.Decode(data, nil, want); err != nil {
			t.Fatalf("the full decoder refuses it: %v", err)
		}
		got.TypeMeta, got.ListMeta = want.TypeMeta, meta
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestEvents(t *testing.T) {
	codec, err := Codec(scheme.Codecs.WithoutConversion(), nil)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := runtime.SerializerInfoForMediaType(codec.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	for name, want := range map[string]metav1.WatchEvent{
		"as ever":       {Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("object")}},
		"without type":  {Object: runtime.RawExtension{Raw: []byte("object")}},
		"empty object":  {Type: "BOOKMARK", Object: runtime.RawExtension{Raw: []byte{}}},
		"none at all":   {Type: "BOOKMARK"},
		"a long object": {Type: "MODIFIED", Object: runtime.RawExtension{Raw: bytes.Repeat([]byte("x"), 1000)}},
	} {
		data, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var got metav1.WatchEvent
		if _, _, err := info.StreamSerializer.Decode(data, nil, &got); err != nil || got.Type != want.Type ||
			string(got.Object.Raw) != string(want.Object.Raw) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, _, err := info.StreamSerializer.Decode(data[:len(data)-1], nil, &got); err == nil {
			t.Errorf("%s: no error for less", name)
		}
	}
}
