package informers

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/pkg/projection/projectiontest"
)

// SharingChangesNothing: objects that share memory are what they were without, those that came before as well.
func TestSharingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newInterner(sample.Transform)
		var want, got []any
		owner := []metav1.OwnerReference{{Controller: new(bool), UID: "d"}}
		*owner[0].Controller = true
		for range rapid.IntRange(1, 6).Draw(t, "objects") {
			o := rapid.SampledFrom([]apiruntime.Object{&corev1.Pod{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}}).Draw(t, "kind").DeepCopyObject()
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

// Pods that differ in any field of a container or an owner reference do not share them, whether or not that field is
// kept today.
func TestSharingComparesWholeParts(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "d", Controller: ptr.To(true)}}},
			Spec:       corev1.PodSpec{Containers: make([]corev1.Container, 1), InitContainers: make([]corev1.Container, 1)},
		}
	}
	parts := map[string]func(*corev1.Pod) any{
		"container":       func(p *corev1.Pod) any { return &p.Spec.Containers[0] },
		"init container":  func(p *corev1.Pod) any { return &p.Spec.InitContainers[0] },
		"owner reference": func(p *corev1.Pod) any { return &p.OwnerReferences[0] },
	}
	for name, part := range parts {
		for i := range reflect.TypeOf(part(pod())).Elem().NumField() {
			without, with, again := pod(), pod(), pod()
			field := reflect.ValueOf(part(with)).Elem().Field(i)
			label := name + ": " + reflect.TypeOf(part(with)).Elem().Field(i).Name
			if label == "owner reference: UID" || label == "owner reference: Controller" {
				continue // another controller, with which nothing is shared anyway
			}
			for seed := int64(1); field.IsZero(); seed++ {
				projectiontest.Filler(seed).NilChance(0).Fill(field.Addr().Interface())
			}
			reflect.ValueOf(part(again)).Elem().Set(reflect.ValueOf(part(with)).Elem())
			s := newInterner(sample.Transform)
			for _, p := range []*corev1.Pod{without, with, again} {
				s.internPod(p)
			}
			if part(without) == part(with) || reflect.DeepEqual(part(without), part(with)) {
				t.Errorf("%s: shared with a pod that lacks it", label)
			}
			if part(with) != part(again) {
				t.Errorf("%s: not shared with an equal pod", label)
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
	if &a.Containers[0].Env[0] != &c.Containers[0].Env[0] || &a.Volumes[0] != &c.Volumes[0] || a.Containers[0].LivenessProbe != c.Containers[0].LivenessProbe {
		t.Error("what is equal in unequal templates is held twice")
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
		p := *sample.ProjectPod(pods[i%len(pods)])
		s.internPod(&p)
	}
}
