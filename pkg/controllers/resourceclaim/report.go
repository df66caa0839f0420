package resourceclaim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns the names of the claims in the status of a pod or a PodGroup.
const fieldManager = "ResourceClaimController"

// reportNames records the names of the claims in the status of their user (RC-126). What is applied has all that the
// status records, because the server takes away what is left out. The uid is a precondition.
func reportNames(_ time.Time, s snapshot, d decision, did plan.Outcome) plan.Plan {
	u := s.user()
	was := maps.Clone(map[string]string(u.records))
	maps.DeleteFunc(was, func(_, claim string) bool { return claim == "" })
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
	return plan.Plan{When: plan.Now(), Steps: []plan.Step{plan.Change{
		Old: u.Object, New: u.withNames(is), Subresource: plan.Status,
		Apply: &plan.Apply{FieldManager: fieldManager, Force: true},
		Why:   fmt.Sprintf("record the names of the claims of the %s", u.kind.Kind),
	}}}
}

// withNames is a user with nothing but the names of its claims.
func (u user) withNames(names map[string]string) *unstructured.Unstructured {
	var statuses []any
	for _, entry := range slices.Sorted(maps.Keys(names)) {
		statuses = append(statuses, map[string]any{"name": entry, "resourceClaimName": names[entry]})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": u.kind.GroupVersion().String(), "kind": u.kind.Kind,
		"metadata": map[string]any{"namespace": u.GetNamespace(), "name": u.GetName(), "uid": string(u.GetUID())},
		"status":   map[string]any{"resourceClaimStatuses": statuses},
	}}
}
