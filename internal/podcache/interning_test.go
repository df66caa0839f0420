package podcache

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// SharingChangesNothing: objects that share memory are what they were without, those that came before as well.
func TestSharingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newInterner(sample.Transform)
		var want, got []any
		owner := []metav1.OwnerReference{{Controller: new(bool), UID: "d"}}
		*owner[0].Controller = true
		for range rapid.IntRange(1, 6).Draw(t, "objects") {
			o := rapid.SampledFrom([]apiruntime.Object{&corev1.Pod{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}}).Draw(t,
				"kind").DeepCopyObject()
			projectiontest.Filler(rapid.Int64Range(1, 3).Draw(t, "seed")).Fill(o) // few, so that some are alike
			switch o := o.(type) {
			case *corev1.Pod:
				projectiontest.AddWhatIsKept(t, o)
				o.OwnerReferences = owner
			case *appsv1.Deployment:
				o.UID = "d"
			case *appsv1.ReplicaSet:
				o.OwnerReferences = owner
				if n := len(o.Spec.Template.Spec.Containers); n > 0 {
					o.Spec.Template.Spec.Containers[n-1].Image = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "image")
				}
			}
			want = append(want, must(sample.Transform(o.DeepCopyObject())))
			shared, err := s.transform(o)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "again") { // as informers do with what a stream begins with
				shared, _ = s.transform(shared)
			}
			got = append(got, shared)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

// Pods that differ in any field of the spec, the status or an owner reference do not share these, whether or not that field is
// kept today. Equal ones do.
func TestSharingComparesWholeParts(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "d", Controller: ptr.To(true)}}}}
	}
	parts := map[string]struct {
		of     func(*corev1.Pod) any
		stored func(*compactPod) any
	}{
		"spec":   {func(p *corev1.Pod) any { return &p.Spec }, func(c *compactPod) any { return c.spec }},
		"status": {func(p *corev1.Pod) any { return &p.Status }, func(c *compactPod) any { return c.status }},
		"owner reference": {
			func(p *corev1.Pod) any { return &p.OwnerReferences[0] }, func(c *compactPod) any { return &c.OwnerReferences[0] },
		},
	}
	own := strings.Fields("spec.NodeName spec.Hostname spec.Volumes status.PodIP status.PodIPs status.Conditions") // each pod has its own
	for name, part := range parts {
		fields := reflect.TypeOf(part.of(pod())).Elem()
		for i := range fields.NumField() {
			label := name + "." + fields.Field(i).Name
			if slices.Contains(own, label) || label == "owner reference.UID" || label == "owner reference.Controller" {
				continue // of an owner reference: another controller, with which nothing is shared anyway
			}
			with := pod()
			field := reflect.ValueOf(part.of(with)).Elem().Field(i)
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem())) // what is filled in for a time may be nil
			}
			for seed := int64(1); field.IsZero(); seed++ {
				projectiontest.Filler(seed).NilChance(0).Fill(field.Addr().Interface())
			}
			s := newInterner(nil)
			a, b, c := part.stored(s.compact(pod())), part.stored(s.compact(with.DeepCopy())), part.stored(s.compact(with.DeepCopy()))
			if a == b || reflect.DeepEqual(a, b) {
				t.Errorf("%s: shared with a pod that lacks it", label)
			}
			if b != c {
				t.Errorf("%s: not shared with an equal pod", label)
			}
		}
	}
}

// The stored form of a pod loses nothing.
func TestCompactPodsExpandToTheSame(t *testing.T) {
	s := newInterner(nil)
	for seed := range int64(100) {
		p := &corev1.Pod{}
		projectiontest.Filler(seed).Fill(p)
		p.TypeMeta = metav1.TypeMeta{} // which objects in caches lack
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(seed % 3)), Controller: ptr.To(true)}}
		for _, c := range []*compactPod{s.compact(p.DeepCopy()), s.compact(p.DeepCopy()).DeepCopyObject().(*compactPod)} {
			got := c.expand()
			if !reflect.DeepEqual(p, got) {
				t.Fatal(cmp.Diff(p, got))
			}
			if c.expand() != got {
				t.Fatal("a pod that is in use is made anew")
			}
		}
	}
}

// A Deployment and its ReplicaSets hold what is equal in their templates once.
func TestTemplatesAreShared(t *testing.T) {
	s := newInterner(sample.Transform)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "d"}}
	d.Spec.Template.Spec = projectiontest.FullPod("a").Spec
	set := func(image string) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
		rs.Spec.Template.Spec = projectiontest.FullPod("a").Spec
		rs.Spec.Template.Spec.Containers[0].Image = image
		return rs
	}
	current, old := set(d.Spec.Template.Spec.Containers[0].Image), set("old")
	for _, o := range []any{d, current, old} {
		if _, err := s.transform(o); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := d.Spec.Template.Spec, current.Spec.Template.Spec, old.Spec.Template.Spec
	if &a.Containers[0] != &b.Containers[0] || &a.Volumes[0] != &b.Volumes[0] {
		t.Error("equal templates are held twice")
	}
	if &a.Containers[0] == &c.Containers[0] || c.Containers[0].Image != "old" || a.Containers[0].Image == "old" {
		t.Error("unequal containers are mixed up")
	}
	if &a.Containers[0].Env[0] != &c.Containers[0].Env[0] || &a.Volumes[0] != &c.Volumes[0] ||
		a.Containers[0].LivenessProbe != c.Containers[0].LivenessProbe {
		t.Error("what is equal in unequal templates is held twice")
	}
}

// What is equal within a Deployment or ReplicaSet is held once: labels, and the fields of containers.
func TestPartsOfOneObjectAreShared(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "d", Labels: map[string]string{"app": "a"}}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	d.Spec.Template.Labels = map[string]string{"app": "a"}
	for _, image := range []string{"a", "b"} {
		c := projectiontest.FullPod("a").Spec.Containers[0]
		c.Image = image
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, c)
	}
	want := d.DeepCopy()
	must(newInterner(sample.Transform).transform(d))
	if !reflect.DeepEqual(want, d) {
		t.Fatal(cmp.Diff(want, d))
	}
	at := func(labels map[string]string) uintptr { return reflect.ValueOf(labels).Pointer() }
	if shared := at(d.Spec.Selector.MatchLabels); at(d.Labels) != shared || at(d.Spec.Template.Labels) != shared {
		t.Error("equal labels are held more than once")
	}
	if a, b := d.Spec.Template.Spec.Containers[0], d.Spec.Template.Spec.Containers[1]; &a.Env[0] != &b.Env[0] ||
		a.LivenessProbe != b.LivenessProbe {
		t.Error("equal fields of containers are held twice")
	}
}

// What is remembered in order to be shared is bounded, and what is in use stays.
func TestRecent(t *testing.T) {
	r := recent[string, int]{limit: 10}
	r.put("used", 7)
	for i := range 1000 {
		r.put(fmt.Sprint(i), i)
		if v, ok := r.get("used"); !ok || v != 7 {
			t.Fatalf("forgotten after %d", i)
		}
		if n := len(r.now) + len(r.older); n > 20 {
			t.Fatalf("%d are remembered", n)
		}
	}
	if _, ok := r.get("5"); ok {
		t.Error("what was not asked for for long is still there")
	}
}

// BenchmarkSharing is what it costs to let a pod share what it has in common with others of its controller.
func BenchmarkSharing(b *testing.B) {
	s := newInterner(sample.Transform)
	pods := make([]*corev1.Pod, 64)
	for i := range pods {
		pods[i] = projectiontest.Decoded(b, "a")
	}
	for i := 0; b.Loop(); i++ {
		s.compact(sample.ProjectPod(pods[i%len(pods)]))
	}
}
