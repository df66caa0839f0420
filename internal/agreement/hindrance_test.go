package agreement

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What is not done is excused while nobody leads, and by a warning about the object since it was planned.
func TestWhatHinders(t *testing.T) {
	planned := time.Now().Add(-time.Minute)
	lease := func(renewed, acquired time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "leader"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
				AcquireTime: ptr.To(metav1.NewMicroTime(acquired))}}
	}
	lives := lease(time.Now(), planned.Add(-time.Hour))
	warned := func(at time.Time) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: "FailedCreate",
			Source: corev1.EventSource{Component: "replicaset-controller"},
			Type:   corev1.EventTypeWarning, InvolvedObject: corev1.ObjectReference{UID: "set"}, LastTimestamp: metav1.NewTime(at)}
	}
	kubelet := warned(planned.Add(time.Second))
	kubelet.Source.Component = "kubelet"
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"a warning of a kubelet", []runtime.Object{lives, kubelet}, ""},
		{"nothing is known", nil, ""},
		{"the leader lives", []runtime.Object{lives}, ""},
		{"nobody renews the lease", []runtime.Object{lease(time.Now().Add(-2*silentFor), planned.Add(-time.Hour))}, "nobody leads"},
		{"it has just begun", []runtime.Object{lease(time.Now(), planned.Add(time.Second))}, "who leads has just begun"},
		{"a warning", []runtime.Object{lives, warned(planned.Add(time.Second))}, "FailedCreate"},
		{"a warning of before", []runtime.Object{lives, warned(planned.Add(-time.Hour))}, ""},
	} {
		asks := HindranceOf(fake.NewClientset(c.objects...), nil, plan.Key{Namespace: "kube-system", Name: "leader"})
		why, err := asks(t.Context(), Question{Since: planned, About: plan.Key{Namespace: "shop", Name: "web"}, Owner: "set"})
		if why != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, why, err)
		}
	}
}

// A field that somebody else has written says nothing of who leads.
func TestFieldsThatOthersHaveWritten(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for manager, want := range map[string]string{"kubectl": "kubectl has written it", "kube-controller-manager": ""} {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}}}
		asks := HindranceOf(fake.NewClientset(), metadatafake.NewSimpleMetadataClient(scheme, o), plan.Key{})
		for path, want := range map[string]string{"spec.replicas": want, "spec.paused": ""} {
			why, err := asks(t.Context(), Question{Kind: kindOf(set(1)), Object: plan.Key{Namespace: "shop", Name: "web"}, Path: path})
			if why != want || err != nil {
				t.Errorf("%s, %s: %q, %v", manager, path, why, err)
			}
		}
	}
}

func TestHasPath(t *testing.T) {
	var managed map[string]any
	text := `{"f:metadata":{"f:annotations":{".":{},"f:example.com/a.b":{}}},"f:spec":{"f:ports":{"k:{\"port\":1}":{"f:name":{}}}},"f:data":{}}`
	if err := json.Unmarshal([]byte(text), &managed); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"metadata.annotations.example.com/a.b": true, "metadata.annotations.example.com/a": false, "spec.ports[1].name": true,
		"spec.ports[1].port": false, "spec.name": false, "data.key": true, "dat": false, "metadata": true,
	} {
		if hasPath(managed, path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
