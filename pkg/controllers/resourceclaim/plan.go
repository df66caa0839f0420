package resourceclaim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// lookAgain is when a pod or a claim is looked at again that names what exists, although the cache lacks it.
	lookAgain = 10 * time.Second
	// templateWait is how long a template may be missing before an event tells of it: a template and a pod that are
	// created together come by two watches.
	templateWait = 2 * time.Second
)

// snapshot is a pod and what there is of the claims that it wants from templates. Observe fills it, and planClaims
// reads it. The objects belong to shared caches.
type snapshot struct {
	Pod     *corev1.Pod
	Entries []entry
	Missing map[string]missing // see memory
	// Workloads: pods of PodGroups have claims of their own. They have not where the PodGroup may have the claims.
	Workloads bool
}

// entry is an entry of a pod's spec that names a template.
type entry struct {
	Name, TemplateName string
	Recorded           string                            // the claim that the pod's status names
	Claim              *resourcev1.ResourceClaim         // the pod's own: the recorded one, or one that was made for it
	Template           *resourcev1.ResourceClaimTemplate // nil if there is none
	Free               string                            // the name of a claim that is made now
	// Unread says that the cache lacks the recorded claim, and that it was not read live; Hidden that it exists.
	Unread, Hidden bool
}

// decision is what was found of a pod's claims. planClaims makes it, and the report and the memory are made of it.
type decision struct {
	Claims  map[string]string  // the pod's claims, by the name of the entry
	Created map[string]string  // those that are created, likewise
	Missing map[string]missing // the templates that are missing, likewise
}

// missing is a template that is missing.
type missing struct {
	Template string
	Since    time.Time // since when this process knows
	Reported bool      // an event has told of it
}

// memory is what is remembered of a pod: its missing templates, by the name of the entry.
type memory struct{ Missing map[string]missing }

// remember returns what is remembered of a pod.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory {
	if len(d.Missing) == 0 {
		return nil
	}
	return &memory{Missing: d.Missing}
}

// planClaims creates the claims that a pod lacks. Each entry is planned by itself, so that one that fails holds up no
// other.
func planClaims(now time.Time, s snapshot) (decision, plan.Plan) {
	d := decision{Claims: map[string]string{}, Created: map[string]string{}, Missing: map[string]missing{}}
	switch {
	case s.Pod.DeletionTimestamp != nil: // RC-120
		return d, plan.Plan{Why: "the pod is being deleted"}
	case podutil.Finished(s.Pod): // MEND-31
		return d, plan.Plan{Why: "the pod has ended, and needs no claims"}
	case s.Pod.Spec.SchedulingGroup != nil && !s.Workloads: // RC-160
		return d, plan.Plan{Why: "pods of PodGroups get no claims with these feature gates"}
	}
	var p plan.Plan
	var create plan.Each
	var waits []string
	for _, e := range s.Entries {
		switch {
		case e.Claim != nil && (e.Claim.Name == e.Recorded || e.Claim.DeletionTimestamp == nil):
			d.Claims[e.Name] = e.Claim.Name
		case e.Claim != nil: // its name is taken until it is gone
			waits = append(waits, fmt.Sprintf("until %s, which is being deleted, is gone", e.Claim.Name))
		case e.Unread:
			p.Proof = append(p.Proof, claimRef(s.Pod.Namespace, e.Recorded))
			waits = append(waits, "until the claim "+e.Recorded+" was read live")
		case e.Hidden:
			p.Requeue = plan.Sooner(p.Requeue, lookAgain)
			waits = append(waits, "until the cache shows the claim "+e.Recorded)
		case e.Template == nil:
			waits = append(waits, "for the template "+e.TemplateName)
			m, wait := s.Missing[e.Name].at(now, e.TemplateName)
			if p.Requeue = plan.Sooner(p.Requeue, wait); wait == 0 && !m.Reported {
				why := fmt.Sprintf("resourceclaimtemplate %q not found", e.TemplateName)
				p.Steps = append(p.Steps, plan.RecordEvent{Object: s.Pod, Event: failed(e, why)})
				m.Reported = true
			}
			d.Missing[e.Name] = m
		default:
			d.Created[e.Name] = e.Free
			create.Sequences = append(create.Sequences, []plan.Step{creation(s.Pod, e)})
		}
	}
	if len(create.Sequences) > 0 {
		p.Steps = append(p.Steps, create)
	}
	p.Why = explain(d, waits)
	return d, p
}

// at returns what is known of a missing template now, and how long it takes until an event tells of it.
func (m missing) at(now time.Time, template string) (known missing, wait time.Duration) {
	if m.Template != template {
		m = missing{Template: template, Since: now}
	}
	return m, max(0, templateWait-now.Sub(m.Since))
}

// creation creates the claim of an entry, which the garbage collector deletes with the pod (RC-124).
func creation(pod *corev1.Pod, e entry) plan.Create {
	of := e.Template.Spec.DeepCopy()
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: e.Free, GenerateName: prefixOf(pod.Name, e.Name), Labels: of.Labels,
			Annotations: of.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
				Controller: ptr.To(true)}},
		},
		Spec: of.Spec,
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resourcev1.PodResourceClaimAnnotation, e.Name)
	return plan.Create{Object: claim, Why: "the pod lacks the claim of its entry " + e.Name,
		Events: plan.Events{Failed: failed(e, "{error}")}}
}

// failed is the event about a claim that the pod has to wait for (RC-125).
func failed(e entry, why string) plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedResourceClaimCreation",
		Message: fmt.Sprintf("PodResourceClaim %s: %s", e.Name, why)}
}

// explain says what is done for a pod, and what it waits for.
func explain(d decision, waits []string) string {
	var parts []string
	if len(d.Created) > 0 {
		parts = append(parts, "create the claims "+strings.Join(slices.Sorted(maps.Values(d.Created)), ", "))
	}
	if len(waits) > 0 {
		parts = append(parts, "wait "+strings.Join(waits, ", "))
	}
	if len(parts) == 0 {
		return "the pod has all its claims"
	}
	return strings.Join(parts, "; ")
}

// ended reports whether a pod needs its claims no more: it never runs again, or never will (RC-110). That does not
// change any more.
func ended(p *corev1.Pod) bool {
	return podutil.Finished(p) || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}

// templatesOf returns the names of the templates of a pod, each once.
func templatesOf(p *corev1.Pod) (names []string) {
	for _, e := range p.Spec.ResourceClaims {
		if e.ResourceClaimTemplateName != nil && e.ResourceClaimName == nil {
			names = append(names, *e.ResourceClaimTemplateName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// owned reports whether a pod of that uid is the controller of a claim.
func owned(c *resourcev1.ResourceClaim, pod types.UID) bool {
	ref := podOf(c)
	return ref != nil && ref.UID == pod
}

// podOf returns the reference to the pod that a claim belongs to; nil if there is none.
func podOf(c *resourcev1.ResourceClaim) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(c)
	if ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return nil
	}
	return ref
}
