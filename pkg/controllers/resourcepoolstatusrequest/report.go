package resourcepoolstatusrequest

import (
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportAnswer writes the answer. An API server takes none after the first one.
func reportAnswer(_ time.Time, s snapshot, d decision, _ plan.Outcome) plan.Plan {
	if d == nil {
		return plan.Plan{}
	}
	answered := s.Request.DeepCopy()
	answered.Status = d
	return plan.Plan{Steps: []plan.Step{plan.Change{Old: s.Request, New: answered, Subresource: plan.Status,
		CheckVersion: true, Why: "the request is not answered"}}}
}
