package podcertificaterequestcleaner

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a request that is not being deleted. Observe fills it, and planDeletion reads it. The object belongs to a
// shared cache.
type snapshot struct {
	Request *certificatesv1.PodCertificateRequest
}

// lifetime is how long a request stays, whatever became of it (CSR-43, PCC-1).
const lifetime = 15 * time.Minute

// planDeletion deletes a request that is old enough. A request of which nobody says when it was made stays.
func planDeletion(now time.Time, s snapshot) plan.Plan {
	if s.Request == nil || s.Request.DeletionTimestamp != nil {
		return plan.Plan{Why: "the request is gone, or is being deleted"}
	}
	if s.Request.CreationTimestamp.IsZero() {
		return plan.Plan{Why: "nothing tells when the request was made"}
	}
	end := s.Request.CreationTimestamp.Add(lifetime)
	if wait := end.Sub(now); wait > 0 {
		return plan.Plan{Why: "is deleted at " + end.UTC().Format(time.RFC3339), Requeue: wait}
	}
	const why = "the request was made long ago"
	return plan.Plan{Why: "delete it: " + why, Steps: []plan.Step{
		plan.Delete{Objects: []plan.Object{s.Request}, Why: why},
	}}
}
