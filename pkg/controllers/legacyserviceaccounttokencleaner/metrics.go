package legacyserviceaccounttokencleaner

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// applied logs what was written (LTC-11).
func applied(ctx context.Context, _ snapshot, _ struct{}, did, _ plan.Outcome) {
	logger := klog.FromContext(ctx)
	for _, r := range did.Results {
		switch {
		case r.Err != nil, r.Needless: // the runtime logs errors
		case r.Verb == plan.Changed:
			logger.Info("Mark the auto-generated service account token as invalid", "secret", klog.KObj(r.Object))
		case r.Verb == plan.Deleted:
			logger.Info("Delete auto-generated service account token", "secret", klog.KObj(r.Object))
		}
	}
}
