package scale

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// examples has a workload of each kind, by kind. All are called web, select the app web, and have two of five replicas.
func examples() map[schema.GroupKind]plan.Object {
	m := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}}
	n := new(int32(5))
	return map[schema.GroupKind]plan.Object{
		{Group: "apps", Kind: "Deployment"}: &appsv1.Deployment{ObjectMeta: m,
			Spec: appsv1.DeploymentSpec{Replicas: n, Selector: selector, Template: template}, Status: appsv1.DeploymentStatus{Replicas: 2}},
		{Group: "apps", Kind: "ReplicaSet"}: &appsv1.ReplicaSet{ObjectMeta: m,
			Spec: appsv1.ReplicaSetSpec{Replicas: n, Selector: selector, Template: template}, Status: appsv1.ReplicaSetStatus{Replicas: 2}},
		{Group: "apps", Kind: "StatefulSet"}: &appsv1.StatefulSet{ObjectMeta: m,
			Spec:   appsv1.StatefulSetSpec{Replicas: n, Selector: selector, Template: template},
			Status: appsv1.StatefulSetStatus{Replicas: 2}},
		{Kind: "ReplicationController"}: &corev1.ReplicationController{ObjectMeta: m,
			Spec:   corev1.ReplicationControllerSpec{Replicas: n, Selector: selector.MatchLabels, Template: &template},
			Status: corev1.ReplicationControllerStatus{Replicas: 2}},
	}
}

func TestEachKind(t *testing.T) {
	c, err := NewCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	watched := map[schema.GroupKind]bool{}
	for _, w := range c.Watches(informers.None) {
		watched[w.Kind.GroupKind()] = true
		if _, ok := c.Get(w.Kind.GroupKind(), "shop", "web"); ok {
			t.Errorf("%s: found in an empty cache", w.Kind)
		}
		if err := w.Informer.GetIndexer().Add(examples()[w.Kind.GroupKind()]); err != nil {
			t.Error(err)
		}
	}
	for kind, o := range examples() {
		w, ok := c.Get(kind, "shop", "web")
		if !ok || w.Object.GetUID() != o.GetUID() || w.Replicas != 5 || w.Observed != 2 || w.Template.Labels["app"] != "web" ||
			metav1.FormatLabelSelector(w.Selector) != "app=web" {
			t.Errorf("%s: %t, %+v", kind, ok, w)
		}
		if of, ok := c.Kind(kind); !ok || of != kind.WithVersion("v1") || !watched[kind] {
			t.Errorf("%s: %t, %s, watched: %t", kind, ok, of, watched[kind])
		}
		if _, ok := c.Get(kind, "bank", "web"); ok {
			t.Errorf("%s: found in another namespace", kind)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	c, err := NewCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []schema.GroupKind{{Group: "apps", Kind: "DaemonSet"}, {Group: "example.com", Kind: "Deployment"}, {}} {
		_, known := c.Kind(kind)
		_, found := c.Get(kind, "shop", "web")
		if known || found {
			t.Errorf("%s: known: %t, found: %t", kind, known, found)
		}
	}
	for _, o := range []plan.Object{nil, &corev1.Pod{}, &appsv1.DaemonSet{}} {
		if w, ok := Of(o); ok || w.Object != nil {
			t.Errorf("%T: %+v", o, w)
		}
	}
}

// What the API server fills in may be missing.
func TestDefaults(t *testing.T) {
	for _, o := range []plan.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &corev1.ReplicationController{}} {
		if w, ok := Of(o); !ok || w.Replicas != 1 || w.Object != o {
			t.Errorf("%T: %t, %+v", o, ok, w)
		}
	}
}
