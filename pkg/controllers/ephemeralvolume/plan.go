package ephemeralvolume

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a pod and the claims that have the names of its own, as one reconcile has observed them.
// Observe fills it, and planClaims reads it. The objects belong to shared caches.
type snapshot struct {
	Pod      *corev1.Pod
	Claims   map[string]*corev1.PersistentVolumeClaim // those that exist with the names of its claims
	Reported map[string]types.UID                     // see memory
}

// decision is which claims stand in the pod's way. planClaims makes it, and remember keeps it, so that there
// is one event for each claim.
type decision struct {
	Foreign map[string]types.UID // claims that have the names of the pod's, and are not its own
}

// memory is what is remembered of a pod: the claims in its way of which people know. It reaches the plan as
// Told of the snapshot.
type memory struct {
	Reported map[string]types.UID // the foreign claims that an event has reported
}

// remember returns what is remembered of a pod: an event has reported each foreign claim.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory {
	if len(d.Foreign) == 0 {
		return nil
	}
	return &memory{Reported: d.Foreign}
}

// planClaims creates the claims that a pod lacks (ST-21, ST-22). Each volume is planned by itself, so that one that
// fails holds up no other.
func planClaims(_ time.Time, s snapshot) (decision, plan.Plan) {
	switch {
	case s.Pod.DeletionTimestamp != nil: // ST-20
		return decision{}, plan.Plan{Why: "the pod is being deleted"}
	case podutil.Finished(s.Pod): // ST-85
		return decision{}, plan.Plan{Why: "the pod has ended, and needs no claims"}
	}
	var missing plan.Each
	var p plan.Plan
	var waits, created []string
	d := decision{Foreign: map[string]types.UID{}}
	planned := map[string]bool{}
	for i := range s.Pod.Spec.Volumes {
		v := &s.Pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		name := podutil.EphemeralClaim(s.Pod, v)
		switch c := s.Claims[name]; {
		case planned[name]:
		case c == nil:
			missing.Sequences = append(missing.Sequences, []plan.Step{creation(s.Pod, v)})
			created = append(created, name)
		case !metav1.IsControlledBy(c, s.Pod): // ST-24
			d.Foreign[name] = c.UID
			waits = append(waits, fmt.Sprintf("%s, which belongs to %s", name, ownerOf(c)))
			if s.Reported[name] != c.UID {
				p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Pod, Event: failed(v, notOwner(c, s.Pod))})
			}
		}
		planned[name] = true
	}
	if len(missing.Sequences) > 0 {
		p.Steps = append(p.Steps, missing)
	}
	p.Why = explain(created, waits)
	return d, p
}

// creation creates the claim of an ephemeral volume, which the garbage collector deletes with the pod.
func creation(pod *corev1.Pod, v *corev1.Volume) plan.Create {
	template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: podutil.EphemeralClaim(pod, v), Labels: template.Labels,
			Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod,
				corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	}
	return plan.Create{
		Object: claim, Why: "the pod has an ephemeral volume and lacks its claim",
		Events: plan.Events{Failed: failed(v, fmt.Sprintf("create PVC %s: {error}", claim.Name))},
	}
}

// failed is the event about a volume that the pod has to wait for (ST-25).
func failed(v *corev1.Volume, why string) plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedBinding",
		Message: fmt.Sprintf("ephemeral volume %s: %s", v.Name, why)}
}

// notOwner is the message about a claim that has the name of one of the pod's, and is not its own.
func notOwner(c *corev1.PersistentVolumeClaim, pod *corev1.Pod) string {
	return fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", c.Namespace, c.Name, pod.Namespace,
		pod.Name)
}

// ownerOf says to whom a claim belongs.
func ownerOf(c *corev1.PersistentVolumeClaim) string {
	ref := metav1.GetControllerOfNoCopy(c)
	if ref == nil {
		return "no pod"
	}
	return fmt.Sprintf("the %s %s (uid %s)", ref.Kind, ref.Name, ref.UID)
}

// explain says what is done for a pod, and what it waits for.
func explain(created, waits []string) string {
	var parts []string
	if len(created) > 0 {
		parts = append(parts, "create the claims "+strings.Join(created, ", "))
	}
	if len(waits) > 0 {
		parts = append(parts, "wait until these claims of others are gone: "+strings.Join(waits, "; "))
	}
	if len(parts) == 0 {
		return "the pod has all its claims"
	}
	return strings.Join(parts, "; ")
}
