package podcache

import (
	"fmt"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// BenchmarkInterning tells how many bytes of heap an object takes that was decoded and projected, with its parts interned and without:
// 20,000 pods of 1000 ReplicaSets, and as many ReplicaSets of 2000 Deployments, whose templates differ in an image.
func BenchmarkInterning(b *testing.B) {
	const n = 20_000
	decode := func(o, into apiruntime.Object) apiruntime.Object {
		data := must(o.(interface{ Marshal() ([]byte, error) }).Marshal())
		must[any](nil, into.(interface{ Unmarshal([]byte) error }).Unmarshal(data))
		return into
	}
	owner := func(kind string, i int) []metav1.OwnerReference {
		yes := true
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: fmt.Sprint("o", i),
			UID: types.UID(fmt.Sprintf("%036d", i)), Controller: &yes}}
	}
	pod := func(i int) apiruntime.Object {
		p := projectiontest.FullPod(fmt.Sprintf("web-6d4b9-%05d", i))
		p.OwnerReferences, p.Spec.NodeName = owner("ReplicaSet", i/20), fmt.Sprint("node-", i%500)
		return must(sample.Transform(decode(p, &corev1.Pod{}))).(apiruntime.Object)
	}
	set := func(i int) apiruntime.Object {
		spec := projectiontest.FullPod("web").Spec
		spec.Containers[0].Image = fmt.Sprint("registry.example.com/web:", i)
		labels := map[string]string{"app": fmt.Sprint("web-", i/10), "pod-template-hash": fmt.Sprint(i)}
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i), Labels: labels,
			OwnerReferences: owner("Deployment", i/10)}}
		s.Spec.Selector, s.Spec.Template = &metav1.LabelSelector{MatchLabels: labels},
			corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
		return must(projection.ManagedFields(decode(s, &appsv1.ReplicaSet{}))).(apiruntime.Object)
	}
	for kind, object := range map[string]func(int) apiruntime.Object{"pods": pod, "replicasets": set} {
		for name, intern := range map[string]func(*interner, apiruntime.Object) any{
			"interned": func(s *interner, o apiruntime.Object) any {
				if p, ok := o.(*corev1.Pod); ok {
					return s.compact(p)
				}
				return must(s.transform(o))
			},
			"without": func(_ *interner, o apiruntime.Object) any {
				if p, ok := o.(*corev1.Pod); ok {
					return newInterner(nil).compact(p)
				}
				return o
			},
		} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				for b.Loop() {
					s := newInterner(func(o any) (any, error) { return o, nil })
					all := make([]any, n)
					before := projectiontest.HeapInUse()
					for i := range all {
						all[i] = intern(s, object(i))
					}
					b.ReportMetric(float64(projectiontest.HeapInUse()-before)/n, "B/object")
					runtime.KeepAlive(all)
				}
			})
		}
	}
}
