package podcache

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
)

// What objects share goes with the last of them, however large it is.
func TestPartsAreForgotten(t *testing.T) {
	i := newInterner(func(o any) (any, error) { return o, nil })
	left := costs.Heap(func() {
		for n := range 100 {
			large := make([]corev1.EnvVar, 5000)
			labels := map[string]string{}
			for at := range large {
				large[at].Name = fmt.Sprint("x", n, at)
				labels[large[at].Name] = "x"
			}
			about := metav1.ObjectMeta{Name: "a", UID: types.UID(fmt.Sprint("u", n)), Labels: labels,
				OwnerReferences: []metav1.OwnerReference{
					{Kind: "ReplicaSet", UID: types.UID(fmt.Sprint("o", n)), Controller: ptr.To(true)}}}
			spec := corev1.PodSpec{Containers: []corev1.Container{{Env: large}}}
			i.compact(&corev1.Pod{ObjectMeta: about, Spec: spec})
			for _, o := range []any{&appsv1.Deployment{ObjectMeta: about,
				Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
				&appsv1.ReplicaSet{ObjectMeta: about, Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}} {
				if _, err := i.transform(o); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if left > 4<<20 {
		t.Errorf("%d bytes are left", left)
	}
	if _, ok := i.templates.get("u1"); !ok {
		t.Error("nothing was remembered")
	}
}
