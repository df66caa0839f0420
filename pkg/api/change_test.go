package api_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/api"
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
		want                         api.Method
	}{
		"RB-13: deployments":        {deployment.Rights(), "apps", "deployments", "", api.MethodUpdate},
		"RB-13: their status":       {deployment.Rights(), "apps", "deployments", "status", api.MethodUpdate},
		"RB-1d: their ReplicaSets":  {deployment.Rights(), "apps", "replicasets", "", api.MethodPatch},
		"RB-13: replicasets/status": {replicaset.Rights(), "apps", "replicasets", "status", api.MethodUpdate},
		"RB-2d: pods":               {replicaset.Rights(), "", "pods", "", api.MethodPatch},
		"RB-4: endpoints":           {endpoint.Rights(), "", "endpoints", "", api.MethodUpdate},
		"RB-13: pods/status":        {podgc.Rights(), "", "pods", "status", api.MethodPatch},
		"GC-58: everything":         {all, "example.com", "widgets", "", api.MethodPatch},
		"HPA-65: every scale":       {scales, "example.com", "widgets", "scale", api.MethodUpdate},
		"not the object itself":     {scales, "example.com", "widgets", "", api.MethodPatch},
		"of another group":          {deployment.Rights(), "example.com", "deployments", "", api.MethodPatch},
		"BOOT-29: in one namespace": {one, "", "configmaps", "", api.MethodUpdate},
		"nothing declared":          {rbac.Rights{}, "apps", "deployments", "", api.MethodPatch},
	} {
		if got := api.MethodFor(c.rights, schema.GroupResource{Group: c.group, Resource: c.resource}, c.subresource); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// written is a client that notes what it is asked to write.
type written struct {
	api.Client
	method string
	patch  api.Patch
	key    plan.Key
	opts   api.WriteOptions
}

func (w *written) Update(_ context.Context, _ api.Mapping, o plan.Object, opts api.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	w.method, w.key, w.opts = "update", plan.Key{Namespace: o.GetNamespace(), Name: o.GetName()}, opts
	return &metav1.PartialObjectMetadata{}, nil
}

func (w *written) Patch(_ context.Context, _ api.Mapping, key plan.Key, patch api.Patch, opts api.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	w.method, w.key, w.patch, w.opts = "patch", key, patch, opts
	return &metav1.PartialObjectMetadata{}, nil
}

func TestChange(t *testing.T) {
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	after := before.DeepCopy()
	after.Status.ReadyReplicas = 2
	m, _ := api.BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for _, c := range []struct {
		method    api.Method
		sent      string
		patchType types.PatchType
	}{
		{"", "patch", types.StrategicMergePatchType},
		{api.MethodPatch, "patch", types.StrategicMergePatchType},
		{api.MethodUpdate, "update", ""},
		{api.MethodApply, "patch", types.ApplyPatchType},
	} {
		w := &written{}
		opts := api.WriteOptions{Method: c.method, Subresource: "status", FieldManager: "x"}
		made, err := api.Change(t.Context(), w, m, before, after, opts)
		if err != nil || made == nil || w.method != c.sent || w.patch.Type != c.patchType || w.opts != opts || w.key.String() != "ns/a" {
			t.Errorf("%q: %+v, %v", c.method, w, err)
		}
	}
	w := &written{}
	for _, method := range []api.Method{api.MethodPatch, api.MethodUpdate} {
		if made, err := api.Change(t.Context(), w, m, before, before.DeepCopy(), api.WriteOptions{Method: method}); made != nil || err != nil || w.method != "" {
			t.Errorf("no difference: %v, %v, %+v", made, err, w)
		}
	}
	if _, err := api.Change(t.Context(), w, m, before, after, api.WriteOptions{Method: "guess"}); err == nil || w.method != "" {
		t.Errorf("an unknown method: %v, %+v", err, w)
	}
}

// Patches of built-in kinds have the version as a precondition where that is asked for.
func TestChangeOfAVersion(t *testing.T) {
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}}
	after := before.DeepCopy()
	after.Status.ReadyReplicas = 2
	m, _ := api.BuiltIn(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for version, want := range map[bool]string{
		true:  `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"readyReplicas":2}}`,
		false: `{"metadata":{"uid":"u"},"status":{"readyReplicas":2}}`,
	} {
		w := &written{}
		if _, err := api.Change(t.Context(), w, m, before, after, api.WriteOptions{Version: version}); err != nil || string(w.patch.Data) != want {
			t.Errorf("%s, %v, want %s", w.patch.Data, err, want)
		}
	}
}
