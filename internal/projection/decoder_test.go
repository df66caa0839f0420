package projection

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// decoders are what the tests hold against one another.
type decoders struct {
	whole, masked, pods apiruntime.Decoder
	podMask             *Mask
	pod                 *PodDecoder
}

func newDecoders(t testing.TB) decoders {
	t.Helper()
	kinds := sample.Masks()
	decoder := func(kinds Kinds) apiruntime.Decoder {
		codec, err := Codec(scheme.Codecs.WithoutConversion(), kinds)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := apiruntime.SerializerInfoForMediaType(codec.SupportedMediaTypes(), apiruntime.ContentTypeProtobuf)
		return codec.DecoderToVersion(info.Serializer, nil)
	}
	name := corev1.SchemeGroupVersion.WithKind("Pod")
	d := decoders{podMask: sample.PodMask(), pod: sample.PodDecoder()}
	d.whole, d.masked = decoder(nil), decoder(kinds)
	d.pods = decoder(Kinds{name: {Mask: d.podMask, Decode: d.pod.DecodeEvent}})
	return d
}

// ofWhole is what must come of encoded data, by the full decoder and [Projection.Project].
func (d decoders) ofWhole(data []byte) (any, error) {
	o, err := apiruntime.Decode(d.whole, data)
	if err != nil {
		return nil, err
	}
	return sample.Project(o)
}

// ofPart is what comes of it by the way that pods take, and ofMasked what comes of it by the way of other kinds.
func (d decoders) ofPart(data []byte) (any, error) {
	o, err := apiruntime.Decode(d.pods, data)
	if err != nil {
		return nil, err
	}
	if p, ok := o.(ProjectedPod); ok {
		return p.Pod, nil
	}
	return sample.Transform(o)
}

func (d decoders) ofMasked(data []byte) (any, error) {
	o, err := apiruntime.Decode(d.masked, data)
	if err != nil {
		return nil, err
	}
	return sample.Transform(o)
}

// DecodesWhatProjectKeeps: whatever is in an object, decoding it in part and projecting it comes to the same as decoding it
// whole and projecting it, for all kinds that are cached, one by one and in lists.
func TestDecodesWhatProjectKeeps(t *testing.T) {
	d := newDecoders(t)
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom([]apiruntime.Object{
			&corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.Endpoints{}, &appsv1.Deployment{},
			&appsv1.ReplicaSet{}, &corev1.ConfigMap{}, &metav1.Status{},
		}).Draw(t, "kind").DeepCopyObject()
		projectiontest.Filler(rapid.Int64().Draw(t, "seed")).Fill(o)
		if p, ok := o.(*corev1.Pod); ok {
			projectiontest.AddWhatIsKept(t, p)
		}
		data := projectiontest.Encode(t, o)
		want, err := d.ofWhole(data)
		if err != nil {
			t.Fatalf("%T: %v", o, err)
		}
		ways := map[string]func([]byte) (any, error){"masked": d.ofMasked}
		if _, ok := o.(*corev1.Pod); ok {
			ways["part"] = d.ofPart
		}
		for how, decode := range ways {
			got, err := decode(data)
			if err != nil {
				t.Fatalf("%T, %s: %v", o, how, err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%T, %s (-want +got):\n%s", o, how, cmp.Diff(want, got))
			}
		}
	})
}

func TestDecodesListsInPart(t *testing.T) {
	d := newDecoders(t)
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom([]apiruntime.Object{
			&corev1.PodList{}, &corev1.NodeList{}, &corev1.ServiceList{}, &corev1.EndpointsList{}, &appsv1.DeploymentList{},
			&appsv1.ReplicaSetList{},
		}).Draw(t, "kind").DeepCopyObject()
		projectiontest.Filler(rapid.Int64().Draw(t, "seed")).Fill(o)
		data := projectiontest.Encode(t, o)
		want, err1 := apiruntime.Decode(d.whole, data)
		got, err2 := apiruntime.Decode(d.masked, data)
		if err1 != nil || err2 != nil {
			t.Fatalf("%T: %v, %v", o, err1, err2)
		}
		if a, b := projectedItems(want), projectedItems(got); !reflect.DeepEqual(a, b) {
			t.Fatalf("%T (-want +got):\n%s", o, cmp.Diff(a, b))
		}
	})
}

// projectedItems are the metadata of a list and its items, projected.
func projectedItems(list apiruntime.Object) (all []any) {
	v := reflect.ValueOf(list).Elem()
	all = append(all, v.FieldByName("ListMeta").Interface())
	items := v.FieldByName("Items")
	for i := range items.Len() {
		o, err := sample.Project(items.Index(i).Addr().Interface().(apiruntime.Object))
		all = append(all, o, err)
	}
	return all
}

// What is decoded into is used again: nothing of a pod may show in the next one.
func TestPodsDoNotShowInOneAnother(t *testing.T) {
	d := newDecoders(t)
	rapid.Check(t, func(t *rapid.T) {
		fill := projectiontest.Filler(rapid.Int64().Draw(t, "seed"))
		var got, want []any
		for range rapid.IntRange(1, 5).Draw(t, "pods") {
			p := &corev1.Pod{}
			if rapid.Bool().Draw(t, "full") {
				fill.Fill(p)
				projectiontest.AddWhatIsKept(t, p)
			}
			data := projectiontest.Encode(t, p)
			a, err1 := d.ofWhole(data)
			b, err2 := d.ofPart(data)
			if err1 != nil || err2 != nil {
				t.Fatalf("%v, %v", err1, err2)
			}
			want, got = append(want, a), append(got, b)
			if rapid.Bool().Draw(t, "damaged") {
				_, _ = d.ofPart(data[:rapid.IntRange(0, len(data)).Draw(t, "length")])
			}
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

// Whole pods are never allocated, nor what is cut out of other objects: the cost of a pod does not grow with what nobody
// reads.
func TestDecodingCostsWhatIsKept(t *testing.T) {
	d := newDecoders(t)
	cost := func(p *corev1.Pod) float64 {
		data := projectiontest.Encode(t, p)
		return testing.AllocsPerRun(1000, func() {
			if _, err := d.ofPart(data); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := projectiontest.FullPod("a"), projectiontest.FullPod("a")
	for i := range 100 {
		large.Spec.Containers[0].Env = append(large.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("E", i), Value: "v"})
		large.ManagedFields = append(large.ManagedFields, large.ManagedFields[0])
		large.Annotations[fmt.Sprint("example.com/", i)] = "v"
		large.Spec.Tolerations = append(large.Spec.Tolerations, large.Spec.Tolerations[0])
	}
	// Under the race detector a sync.Pool drops some of what is put into it at random, so the averages are rounded differently at times.
	if a, b := cost(small), cost(large); math.Abs(b-a) > 1 {
		t.Errorf("%v allocations for a pod, %v for one that has more of what is dropped", a, b)
	}
}

// FuzzPods feeds arbitrary bytes to both ways of decoding. What the full decoder accepts must come out the same; what it
// refuses may be accepted if the damage is in what is not looked at, but must do no harm.
func FuzzPods(f *testing.F) {
	d := newDecoders(f)
	for _, p := range []*corev1.Pod{{}, {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}},
		projectiontest.FullPod("a"),
		{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}} {
		data := projectiontest.Encode(f, p)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	for seed := range int64(5) {
		p := &corev1.Pod{}
		projectiontest.Filler(seed).Fill(p)
		f.Add(projectiontest.Encode(f, p))
	}
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x04\x0b\x08\x01\x0c"))                         // a group
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x08\x0a\x06\x62\x04\x12\x00\x0a\x00"))         // an entry of a map the wrong way round
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")) // a length beyond everything
	// the value of an annotation is longer than its entry
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x0c\x0a\x0a\x62\x02\x12\x06\x22\x04abcd"))
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x0c\x0a\x0a\x5a\x02\x0a\x06\x22\x04abcd"))     // the key of a label
	f.Add([]byte("k8s\x00\n\t\n\x02v1\x12\x03Pod\x12\x0d\x0a\x0b\x58\x02\x0a\x06\x22\x04abcd\x00")) // a label that is a number
	f.Fuzz(func(t *testing.T, data []byte) {
		d.agree(t, data)
	})
}

// agree fails unless both ways of decoding make the same of what the full decoder accepts.
func (d decoders) agree(t rapid.TB, data []byte) {
	t.Helper()
	want, err1 := d.ofWhole(data)
	got, err2 := d.ofPart(data)
	masked, err3 := d.ofMasked(data)
	if err1 != nil {
		return
	}
	if err2 != nil || err3 != nil {
		t.Fatalf("the full decoder accepts it, others don't: %v, %v: %q", err2, err3, data)
	}
	if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(want, masked) {
		t.Fatalf("whole and in part (-want +got):\n%s%s", cmp.Diff(want, got), cmp.Diff(want, masked))
	}
}

// The same for pods that are damaged in places, which arbitrary bytes seldom are.
func TestDamagedPods(t *testing.T) {
	d := newDecoders(t)
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{}
		projectiontest.Filler(rapid.Int64().Draw(t, "seed")).Fill(p)
		projectiontest.AddWhatIsKept(t, p)
		sound := projectiontest.Encode(t, p)
		for range 30 {
			data := bytes.Clone(sound)
			for range rapid.IntRange(1, 3).Draw(t, "damages") {
				at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					data[at] = rapid.Byte().Draw(t, "byte")
				case 1:
					data[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				case 2:
					data = append(data[:at:at], data[min(len(data), at+rapid.IntRange(1, 20).Draw(t, "cut")):]...)
				case 3:
					data = append(append(data[:at:at], rapid.SliceOfN(rapid.Byte(), 1, 5).Draw(t, "more")...), data[at:]...)
				}
				if len(data) == 0 {
					return
				}
			}
			d.agree(t, data)
		}
	})
}

func BenchmarkDecodePod(b *testing.B) {
	d := newDecoders(b)
	p := projectiontest.FullPod("web-6d4b9-abcde")
	for i := range 40 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprint("SETTING_NUMBER_", i), Value: "a value of thirty characters..."})
	}
	data := projectiontest.Encode(b, p)
	for _, c := range []struct {
		name   string
		decode func([]byte) (any, error)
	}{{"whole, then projected", d.ofWhole}, {"in part", d.ofPart}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
