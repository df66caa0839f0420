package integration

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

func apiClients(t *testing.T, config *rest.Config) *client.Clients {
	t.Helper()
	own := rest.CopyConfig(config)
	own.ContentType, own.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf, */*"
	own.QPS = -1
	mapper, err := client.NewMapper(own)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := client.NewClients(own, mapper, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// What is known of built-in kinds without asking is what the API server says.
func TestBuiltInKindsAreTheServers(t *testing.T) {
	clients := apiClients(t, cluster.Start(t).RESTConfig)
	if err := clients.Mapper().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, lists, err := clients.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			m, ok := client.BuiltIn(version.WithKind(r.Kind))
			if strings.Contains(r.Name, "/") || !ok {
				continue
			}
			compared++
			if m.Resource != r.Name || m.Namespaced != r.Namespaced {
				t.Errorf("%s: %s, namespaced %v; the server says %s, %v", m.GroupVersionKind, m.Resource, m.Namespaced, r.Name,
					r.Namespaced)
			}
		}
	}
	if compared < 60 {
		t.Errorf("only %d kinds compared", compared)
	}
}

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.api.example.com}
spec:
  group: api.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
`

// A kind that appears while we run is read and written like any other.
func TestCustomResources(t *testing.T) {
	c := cluster.Start(t)
	clients, ns := apiClients(t, c.RESTConfig), c.Namespace(t)
	cl, ctx := clients.Client(), t.Context()
	w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3), "list": []any{"a"}}}}
	w.SetGroupVersionKind(schema.GroupVersionKind{Group: "api.example.com", Version: "v1", Kind: "Widget"})
	w.SetNamespace(ns)
	w.SetName("w")
	if _, err := clients.Mapper().MappingFor(ctx, w); err == nil {
		t.Fatal("there is no such kind yet")
	}
	c.Apply(t, "", widgetCRD)
	defer c.Kubectl(t, "delete", "crd", "widgets.api.example.com")
	var m client.Mapping
	cluster.Eventually(t, patience, "the kind is found", func() (err error) {
		if err = clients.Mapper().Refresh(ctx); err != nil {
			return err
		}
		if m, err = clients.Mapper().MappingFor(ctx, w); err == nil {
			_, err = cl.Create(ctx, m, w, client.WriteOptions{}) // the server itself needs a moment
		}
		return err
	})
	key := plan.Key{Namespace: ns, Name: "w"}
	before := read(ctx, t, cl, m, key)
	after := before.DeepCopy()
	after.SetFinalizers([]string{"example.com/f"})
	if _, err := client.Change(ctx, cl, m, before, after, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Change(ctx, cl, m, before, after, client.WriteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("GC-49: a merge patch of an outdated object: %v", err)
	}
	before = read(ctx, t, cl, m, key)
	after = before.DeepCopy()
	after.SetFinalizers(nil)
	after.SetUID("another")
	namesake := before.DeepCopy()
	namesake.SetUID("another")
	if _, err := client.Change(ctx, cl, m, namesake, after, client.WriteOptions{}); !apierrors.IsConflict(err) &&
		!apierrors.IsInvalid(err) {
		t.Errorf("a patch of an object that took the other's name: %v", err)
	}
	after.Object["status"] = map[string]any{"replicas": int64(2)}
	if _, err := client.Change(ctx, cl, m, before, after, client.WriteOptions{Subresource: "status"}); err != nil {
		t.Error(err)
	}
	scale, err := cl.GetScale(ctx, m, key)
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Replicas != 2 {
		t.Fatalf("%+v, %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if _, err := cl.Update(ctx, m, scale, client.WriteOptions{Subresource: "scale"}); err != nil {
		t.Error(err)
	}
	before = read(ctx, t, cl, m, key)
	after = before.DeepCopy()
	after.SetFinalizers(nil)
	if _, err := client.Change(ctx, cl, m, before, after, client.WriteOptions{}); err != nil {
		t.Error(err)
	}
	if err := cl.DeleteCollection(ctx, m, ns, metav1.ListOptions{}, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	left := &metav1.PartialObjectMetadataList{}
	if err := cl.List(ctx, m, ns, metav1.ListOptions{}, left); err != nil || len(left.Items) > 0 {
		t.Errorf("left: %v, %v", left.Items, err)
	}
}

func read(ctx context.Context, t *testing.T, r client.Reader, m client.Mapping, key plan.Key) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := r.Get(ctx, m, key, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// Patches, subresources and apply of built-in kinds do on the real server what they say.
func TestBuiltInObjects(t *testing.T) {
	t.Parallel() // without a manager
	c := cluster.Start(t)
	clients, ns := apiClients(t, c.RESTConfig), c.Namespace(t)
	cl, ctx := clients.Client(), t.Context()
	pods, _ := client.BuiltIn(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p", Labels: map[string]string{"a": "b"},
		Finalizers: []string{"example.com/f"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "no-such-node"}}
	made, err := cl.Create(ctx, pods, pod, client.WriteOptions{})
	if err != nil || made.UID == "" || made.ResourceVersion == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	key := plan.Key{Namespace: ns, Name: "p"}
	metadata := &metav1.PartialObjectMetadata{}
	if err := cl.Get(ctx, pods, key, metadata); err != nil || metadata.UID != made.UID {
		t.Fatalf("%v, %v", metadata, err)
	}
	c.Kubectl(t, "--namespace", ns, "label", "pod", "p", "other=one")
	after := metadata.DeepCopy()
	after.Labels, after.Finalizers = nil, nil
	if _, err := client.Change(ctx, cl, pods, metadata, after, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	live := &corev1.Pod{}
	if err := cl.Get(ctx, pods, key, live); err != nil || len(live.Labels) != 1 || live.Labels["other"] != "one" ||
		len(live.Finalizers) != 0 {
		t.Errorf("what another has written is to stay: %v, %v, %v", live.Labels, live.Finalizers, err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
	if _, err := cl.Create(ctx, pods, eviction, client.WriteOptions{Subresource: "eviction"}); err != nil {
		t.Errorf("evict: %v", err)
	}
	roles, _ := client.BuiltIn(rbacv1.SchemeGroupVersion.WithKind("Role"))
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "r"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	for range 2 {
		apply := client.WriteOptions{Method: client.MethodApply, FieldManager: "test"}
		if made, err = client.Change(ctx, cl, roles, role, role, apply); err != nil || made.UID == "" {
			t.Errorf("apply: %v, %v", made, err)
		}
		role.Rules[0].Verbs = []string{"list"}
	}
	deployments, _ := client.BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	c.Kubectl(t, "--namespace", ns, "create", "deployment", "d", "--image=i", "--replicas=0")
	if scale, err := clients.Reader().GetScale(ctx, deployments, plan.Key{Namespace: ns, Name: "d"}); err != nil ||
		scale.Spec.Replicas != 0 {
		t.Errorf("%v, %v", scale, err)
	}
	status, err := clients.Reader().SubjectAccessReview(ctx, authorizationv1.SubjectAccessReviewSpec{User: "nobody",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"}})
	if err != nil || status.Allowed {
		t.Errorf("%+v, %v", status, err)
	}
}
