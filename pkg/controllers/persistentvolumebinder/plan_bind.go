package persistentvolumebinder

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bind are the four writes that bind a claim and a volume, those of which something is left to do. The first one is the
// reservation: the version of the volume decides who gets it. The others follow, and whatever ends them in between, the
// next reconcile continues (PV-34).
func bind(s claimSnapshot, v *corev1.PersistentVolume, because string) (d claimDecision, p plan.Plan) {
	c := s.Claim
	reserved := reserve(v, c)
	p.Steps = change(p.Steps, v, reserved, "", "it is reserved for the claim "+c.Namespace+"/"+c.Name)
	bound := reserved.DeepCopy()
	bound.Status.Phase, bound.Status.Message, bound.Status.Reason = corev1.VolumeBound, "", ""
	p.Steps = change(p.Steps, reserved, bound, plan.Status, "it is bound")
	named := normalized(c)
	if named.Spec.VolumeName == "" {
		named.Spec.VolumeName = v.Name
		annotate(named, boundByController, yes)
	}
	if !labels.Set(named.Annotations).Has(bindCompleted) {
		annotate(named, bindCompleted, yes)
	}
	p.Steps = change(p.Steps, c, named, "", "it is bound to the volume "+v.Name)
	p.Steps = change(p.Steps, named, withVolume(named, v), plan.Status, "it is bound")
	if p.Why = fmt.Sprintf("it is bound to the volume %s", v.Name); len(p.Steps) > 0 {
		d.Bind, p.Why = v.Name, fmt.Sprintf("it is being bound to the volume %s: %s", v.Name, because)
	}
	return d, p
}

// change adds a step to the others if something changes.
func change(steps []plan.Step, old, new plan.Object, subresource, why string) []plan.Step {
	if equality.Semantic.DeepEqual(old, new) {
		return steps
	}
	return append(steps,
		plan.Change{Old: old, New: new, Subresource: subresource, Unowned: true, CheckVersion: true, Why: why})
}

// reserve returns the volume as one that is for the claim.
func reserve(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	after := tidied(v)
	if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.UID {
		return after
	}
	if !names(v, c) {
		after.Annotations = maps.Clone(after.Annotations)
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[boundByController] = yes
	}
	after.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
		ResourceVersion: c.ResourceVersion,
	}
	return after
}

// annotate sets an annotation of a claim, which is the caller's own copy.
func annotate(c *corev1.PersistentVolumeClaim, key, value string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[key] = value
}

// withVolume returns the claim with the status of one that is bound to the volume. Capacity and class of attributes
// are those of the volume when it becomes bound; later, the resizer says what they are.
func withVolume(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	after := c.DeepCopy()
	after.Status.AccessModes = append([]corev1.PersistentVolumeAccessMode(nil), v.Spec.AccessModes...)
	if c.Status.Phase == corev1.ClaimBound {
		return after
	}
	after.Status.Phase, after.Status.Capacity = corev1.ClaimBound, v.Spec.Capacity.DeepCopy()
	if text, ok := v.Annotations[preResize]; ok {
		if before, err := resource.ParseQuantity(text); err == nil {
			if after.Status.Capacity == nil {
				after.Status.Capacity = corev1.ResourceList{}
			}
			after.Status.Capacity[corev1.ResourceStorage] = before
		}
	}
	if c.Status.Phase != corev1.ClaimLost {
		after.Status.CurrentVolumeAttributesClassName = v.DeepCopy().Spec.VolumeAttributesClassName
	}
	return after
}

// preResize is the capacity of a volume before it was resized.
const preResize = "volume.alpha.kubernetes.io/pre-resize-capacity"

// lose says that a claim has lost its volume, in an event when it does (PV-24, PV-27).
func lose(s claimSnapshot, why string, e event) (d claimDecision, p plan.Plan) {
	c := normalized(s.Claim)
	p.Steps = change(p.Steps, s.Claim, c, "", "the driver that has taken over its plugin")
	p.Steps = change(p.Steps, c, without(c, corev1.ClaimLost), plan.Status, why)
	if c.Status.Phase != corev1.ClaimLost {
		p.Steps = append(p.Steps, e.of(s.Claim))
	}
	p.Why = "it is Lost: " + why
	return d, p
}

// without returns the claim in a phase in which it has no volume.
func without(c *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	after := c.DeepCopy()
	after.Status.Phase = phase
	after.Status.AccessModes, after.Status.Capacity, after.Status.CurrentVolumeAttributesClassName = nil, nil, nil
	return after
}

// wait leaves a claim Pending. What it waits for is said once.
func wait(s claimSnapshot, why string, e event) (d claimDecision, p plan.Plan) {
	return waitAs(s, normalized(s.Claim), why, e)
}

// waitAs is wait, with the claim being changed.
func waitAs(s claimSnapshot, after *corev1.PersistentVolumeClaim, why string, e event) (d claimDecision, p plan.Plan) {
	c := s.Claim
	p.Why = why
	p.Steps = change(p.Steps, c, after, "", why)
	if c.Status.Phase != corev1.ClaimPending && c.Status.Phase != "" {
		p.Steps = change(p.Steps, after, without(after, corev1.ClaimPending), plan.Status, why)
	}
	if e.empty() {
		return d, p
	}
	d.LastEvent = e.dedupKey()
	if s.Memory.UID != c.UID || s.Memory.LastEvent != d.LastEvent {
		p.Steps = append(p.Steps, e.of(c))
	}
	return d, p
}

// normalized returns a copy of a claim, with the driver that has taken over the plugin it names (PV-11).
func normalized(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	after := c.DeepCopy()
	plugin := c.Annotations[provisioner]
	if plugin == "" {
		plugin = c.Annotations[betaProvisioner]
	}
	after.Annotations = migrated(after.Annotations, plugin)
	return after
}

// migrated returns annotations that say which driver has taken over a plugin; none does if none has.
func migrated(annotations map[string]string, plugin string) map[string]string {
	switch driver := volumes.CSIDriverOf(plugin); {
	case annotations[migratedTo] == driver && (driver != "" || !labels.Set(annotations).Has(migratedTo)):
		return annotations
	case driver == "":
		annotations = maps.Clone(annotations)
		delete(annotations, migratedTo)
		return annotations
	default:
		annotations = maps.Clone(annotations)
		annotations[migratedTo] = driver // there are some: one of them names the plugin
		return annotations
	}
}
