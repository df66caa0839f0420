package client_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpoint"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

func TestMethodFollowsRights(t *testing.T) {
	all := rbac.Rights{Own: []rbac.Rule{{Group: "*", Resource: "*", Verbs: []string{"*"}}}}
	scales := rbac.Rights{Own: []rbac.Rule{{Group: "*", Resource: "*/scale", Verbs: []string{"get", "update"}}}}
	one := rbac.Rights{In: map[string][]rbac.Rule{"kube-public": {{Resource: "configmaps", Verbs: []string{"update"}}}}}
	for name, c := range map[string]struct {
		rights                       rbac.Rights
		group, resource, subresource string
		want                         client.Method
	}{
		"RB-13: deployments":        {deployment.Rights(), "apps", "deployments", "", client.MethodUpdate},
		"RB-13: their status":       {deployment.Rights(), "apps", "deployments", "status", client.MethodUpdate},
		"RB-1d: their ReplicaSets":  {deployment.Rights(), "apps", "replicasets", "", client.MethodPatch},
		"RB-13: replicasets/status": {replicaset.Rights(), "apps", "replicasets", "status", client.MethodUpdate},
		"RB-2d: pods":               {replicaset.Rights(), "", "pods", "", client.MethodPatch},
		"RB-4: endpoints":           {endpoint.Rights(), "", "endpoints", "", client.MethodUpdate},
		"RB-13: pods/status":        {podgc.Rights(), "", "pods", "status", client.MethodPatch},
		"GC-58: everything":         {all, "example.com", "widgets", "", client.MethodPatch},
		"HPA-65: every scale":       {scales, "example.com", "widgets", "scale", client.MethodUpdate},
		"not the object itself":     {scales, "example.com", "widgets", "", client.MethodPatch},
		"of another group":          {deployment.Rights(), "example.com", "deployments", "", client.MethodPatch},
		"BOOT-29: in one namespace": {one, "", "configmaps", "", client.MethodUpdate},
		"nothing declared":          {rbac.Rights{}, "apps", "deployments", "", client.MethodPatch},
	} {
		if got := client.MethodFor(c.rights, schema.GroupResource{Group: c.group, Resource: c.resource}, c.subresource); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// written is a client that notes what it is asked to write.
type written struct {
	client.Client
	method string
	patch  client.Patch
	key    plan.Key
	opts   client.WriteOptions
}

func (w *written) Update(_ context.Context, _ client.Mapping, o plan.Object, opts client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	w.method, w.key, w.opts = "update", plan.KeyOf(o), opts
	return &metav1.PartialObjectMetadata{}, nil
}

func (w *written) Patch(_ context.Context, _ client.Mapping, key plan.Key, patch client.Patch,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	w.method, w.key, w.patch, w.opts = "patch", key, patch, opts
	return &metav1.PartialObjectMetadata{}, nil
}

func TestChange(t *testing.T) {
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	after := before.DeepCopy()
	after.Status.ReadyReplicas = 2
	m, _ := client.BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for _, c := range []struct {
		method    client.Method
		sent      string
		patchType types.PatchType
	}{
		{"", "patch", types.StrategicMergePatchType},
		{client.MethodPatch, "patch", types.StrategicMergePatchType},
		{client.MethodUpdate, "update", ""},
		{client.MethodApply, "patch", types.ApplyPatchType},
	} {
		w := &written{}
		opts := client.WriteOptions{Method: c.method, Subresource: "status", FieldManager: "x"}
		made, err := client.Change(t.Context(), w, m, before, after, opts)
		if err != nil || made == nil || w.method != c.sent || w.patch.Type != c.patchType || w.opts != opts || w.key.String() != "ns/a" {
			t.Errorf("%q: %+v, %v", c.method, w, err)
		}
	}
	w := &written{}
	for _, method := range []client.Method{client.MethodPatch, client.MethodUpdate} {
		if made, err := client.Change(t.Context(), w, m, before, before.DeepCopy(), client.WriteOptions{Method: method}); made != nil ||
			err != nil || w.method != "" {
			t.Errorf("no difference: %v, %v, %+v", made, err, w)
		}
	}
	if _, err := client.Change(t.Context(), w, m, before, after, client.WriteOptions{Method: "guess"}); err == nil || w.method != "" {
		t.Errorf("an unknown method: %v, %+v", err, w)
	}
}

// Patches of built-in kinds have the version as a precondition where that is asked for.
func TestChangeOfAVersion(t *testing.T) {
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}}
	after := before.DeepCopy()
	after.Status.ReadyReplicas = 2
	m, _ := client.BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for version, want := range map[bool]string{
		true:  `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"readyReplicas":2}}`,
		false: `{"metadata":{"uid":"u"},"status":{"readyReplicas":2}}`,
	} {
		w := &written{}
		if _, err := client.Change(t.Context(), w, m, before, after, client.WriteOptions{CheckVersion: version}); err != nil ||
			string(w.patch.Data) != want {
			t.Errorf("%s, %v, want %s", w.patch.Data, err, want)
		}
	}
}
