package persistentvolumeexpander

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// resizer is the annotation of a claim that names the CSI driver whose resizer is to take it (ST-4).
const resizer = "volume.kubernetes.io/storage-resizer"

// reason is that of all events.
const reason = "ExternalExpanding"

// snapshot is a claim and its volume, as one reconcile has observed them. Observe fills it, and planHandOver
// reads it. The objects belong to shared caches.
type snapshot struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume // that of the claim; nil if there is none, or it belongs to another claim
	Seen   *resource.Quantity       // see memory; nil if there is none
}

// memory is what is remembered of a claim while it asks for more than it has. Observe makes it; it reaches
// the plan as Seen of the snapshot.
type memory struct {
	UID     types.UID
	Request resource.Quantity // that it had when it was last reconciled, which an event has reported
}

// growing reports whether a claim is bound and asks for more than it has (ST-1, ST-3).
func growing(c *corev1.PersistentVolumeClaim) bool {
	capacity := c.Status.Capacity[corev1.ResourceStorage]
	request := volumes.Requested(c)
	return c.Status.Phase == corev1.ClaimBound && request.Cmp(capacity) > 0
}

// holds reports whether a volume is that of a claim.
func holds(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return v.Name == c.Spec.VolumeName && ref != nil && ref.Namespace == c.Namespace && ref.UID == c.UID
}

// planHandOver says which component has to make the volume of a claim larger, and hands the claim to the resizer of a
// CSI driver that took over an in-tree plugin. The event is about a new request, and not about each reconcile (ST-81).
func planHandOver(_ time.Time, s snapshot) plan.Plan {
	switch {
	case !growing(s.Claim):
		return plan.Plan{Why: "the claim asks for no more than it has"}
	case s.Volume == nil:
		return plan.Plan{Why: fmt.Sprintf("the claim asks for more than it has, and waits for its volume %q",
			s.Claim.Spec.VolumeName)}
	}
	var p plan.Plan
	request := volumes.Requested(s.Claim)
	plugin, driver := volumes.MigratedPlugin(s.Volume)
	if s.Seen == nil || request.Cmp(*s.Seen) > 0 {
		p.Steps = append(p.Steps,
			plan.RecordEvent{Object: s.Claim,
				Event: plan.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message(plugin)}})
	}
	if driver != "" && s.Claim.Annotations[resizer] != driver {
		p.Steps = append(p.Steps, handOver(s.Claim, driver))
	}
	p.Why = fmt.Sprintf("the claim asks for %s: wait until %s makes its volume larger", request.String(),
		whoActs(s.Volume, driver))
	return p
}

// message is that of the event about a claim whose volume has a plugin that a CSI driver took over, or another one,
// which is then empty (ST-4, ST-5).
func message(plugin string) string {
	if plugin == "" {
		return "waiting for an external controller to expand this PVC"
	}
	return fmt.Sprintf("CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
}

// handOver gives a claim the annotation by which the resizer of a driver takes it (ST-4).
func handOver(c *corev1.PersistentVolumeClaim, driver string) plan.Change {
	after := c.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[resizer] = driver
	return plan.Change{
		Old: c, New: after, Subresource: plan.Status, CheckVersion: true,
		Why: "the resizer of " + driver + " takes claims that name it",
		Events: plan.Events{Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: reason,
			Message: "hand the claim to the resizer of " + driver + ": {error}"}},
	}
}

// whoActs names the component that makes a volume larger. driver is that which took over its plugin.
func whoActs(v *corev1.PersistentVolume, driver string) string {
	switch {
	case driver != "":
		return "the resizer of the CSI driver " + driver
	case v.Spec.CSI != nil:
		return "the resizer of the CSI driver " + v.Spec.CSI.Driver
	}
	return "an external controller"
}
