package engine

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Kind says how objects of one type are read and written.
type Kind struct {
	schema.GroupVersionKind
	Resource string
	// Put: the main resource and the status are written by update, with the resourceVersion observed, because the
	// bootstrap roles allow nothing else (RB-13). Otherwise by a patch of the difference, which suits slimmed objects.
	Put, PutStatus bool
	New            func() plan.Object // an empty object to decode into
}

// KindOf is the table of the kinds that controllers write. A slimmed kind (pods) must never be Put.
func KindOf(o plan.Object) (Kind, error) {
	switch o.(type) {
	case *corev1.Pod:
		return Kind{corev1.SchemeGroupVersion.WithKind("Pod"), "pods", false, false,
			func() plan.Object { return &corev1.Pod{} }}, nil
	case *corev1.Endpoints:
		return Kind{corev1.SchemeGroupVersion.WithKind("Endpoints"), "endpoints", true, true,
			func() plan.Object { return &corev1.Endpoints{} }}, nil
	case *corev1.Node: // read only
		return Kind{corev1.SchemeGroupVersion.WithKind("Node"), "nodes", false, false,
			func() plan.Object { return &corev1.Node{} }}, nil
	case *appsv1.ReplicaSet:
		return Kind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), "replicasets", false, true,
			func() plan.Object { return &appsv1.ReplicaSet{} }}, nil
	case *appsv1.Deployment:
		return Kind{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", true, true,
			func() plan.Object { return &appsv1.Deployment{} }}, nil
	}
	return Kind{}, fmt.Errorf("no controller writes objects of type %T", o)
}

func (k Kind) put(status bool) bool {
	if status {
		return k.PutStatus
	}
	return k.Put
}

// patchOf returns the strategic merge patch that turns before into after, nil if there is nothing to turn. The uid rides
// along as a precondition, so that the patch cannot hit a namesake (RS-21, RS-22).
func patchOf(k Kind, before, after plan.Object) ([]byte, error) {
	a, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.Kind, err)
	}
	b, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.Kind, err)
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(k.New())
	if err != nil {
		return nil, fmt.Errorf("patch schema of %s: %w", k.Kind, err)
	}
	diff, err := strategicpatch.CreateTwoWayMergePatchUsingLookupPatchMeta(a, b, schema)
	if err != nil {
		return nil, fmt.Errorf("difference of two %s: %w", k.Kind, err)
	}
	var patch map[string]any
	if err := json.Unmarshal(diff, &patch); err != nil {
		return nil, fmt.Errorf("difference of two %s: %w", k.Kind, err)
	}
	dropElementOrder(patch)
	if len(patch) == 0 {
		return nil, nil
	}
	meta, ok := patch["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		patch["metadata"] = meta
	}
	meta["uid"] = string(before.GetUID())
	return json.Marshal(patch)
}

// dropElementOrder removes the list-order directives of a strategic merge patch: no list that controllers patch is
// ordered, and a directive would name elements that another writer may have removed meanwhile.
func dropElementOrder(patch map[string]any) {
	for key, value := range patch {
		if strings.HasPrefix(key, "$setElementOrder/") {
			delete(patch, key)
		} else if inner, ok := value.(map[string]any); ok {
			dropElementOrder(inner)
			if len(inner) == 0 {
				delete(patch, key)
			}
		}
	}
}
