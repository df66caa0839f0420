package resourceclaim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns the names of the claims in the status of a pod.
const fieldManager = "ResourceClaimController"

// reportNames records the names of a pod's claims in its status (RC-126). What is applied has all that the status
// records, because the server takes away what is left out. The uid is a precondition.
func reportNames(_ time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	was := map[string]string{}
	for _, r := range s.Pod.Status.ResourceClaimStatuses {
		if r.ResourceClaimName != nil {
			was[r.Name] = *r.ResourceClaimName
		}
	}
	is := maps.Clone(was)
	maps.Copy(is, d.Claims)
	for _, r := range did.Results {
		if c, ok := r.Object.(*resourcev1.ResourceClaim); ok && r.Verb == plan.Created && r.Err == nil {
			is[c.Annotations[resourcev1.PodResourceClaimAnnotation]] = r.Name
		}
	}
	if maps.Equal(was, is) {
		return plan.Plan{}
	}
	why := "record the names of the pod's claims"
	return plan.Plan{When: plan.Now(), Steps: []plan.Step{plan.Change{
		Old: s.Pod, New: withNames(s.Pod, is), Subresource: plan.Status,
		Apply: &plan.Apply{FieldManager: fieldManager, Force: true}, Why: why,
	}}}
}

// withNames is a pod with nothing but the names of its claims.
func withNames(p *corev1.Pod, names map[string]string) *unstructured.Unstructured {
	var statuses []any
	for _, entry := range slices.Sorted(maps.Keys(names)) {
		statuses = append(statuses, map[string]any{"name": entry, "resourceClaimName": names[entry]})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": p.Namespace, "name": p.Name, "uid": string(p.UID)},
		"status":   map[string]any{"resourceClaimStatuses": statuses},
	}}
}
