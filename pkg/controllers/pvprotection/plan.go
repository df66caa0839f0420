package pvprotection

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// protection is the finalizer of PersistentVolumes (SM-20).
const protection plan.Protection = "kubernetes.io/pv-protection"

// snapshot is a volume, as one reconcile has observed it. Observe fills it, and planFinalizer reads it. The
// object belongs to a shared cache.
type snapshot struct{ Volume *corev1.PersistentVolume }

// planFinalizer gives a volume its finalizer, and takes it off one that is being deleted and not bound. The change is
// an update of the version that was observed, so a volume that was bound meanwhile keeps it (SM-24, SM-26).
func planFinalizer(_ time.Time, s snapshot) plan.Plan {
	var why string
	switch v := s.Volume; {
	case v == nil:
		return plan.Plan{Why: "the volume is gone"}
	case !protection.Due(v):
		return plan.Plan{Why: "there is nothing to do"}
	case v.DeletionTimestamp == nil:
		why = "the volume lacks the finalizer that protects it while it is bound"
	case v.Status.Phase == corev1.VolumeBound:
		return plan.Plan{Why: "the volume is being deleted, and stays because it is bound"}
	default:
		why = "the volume is being deleted and is not bound: take its finalizer off"
	}
	return plan.Plan{Why: why, Steps: []plan.Step{protection.Toggle(s.Volume, why)}}
}
