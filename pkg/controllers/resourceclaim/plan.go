package resourceclaim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// snapshot is a pod or a PodGroup, and what there is of the claims that it wants from templates. Observe fills it, and
// planClaims reads it. The objects belong to shared caches.
type snapshot struct {
	Pod      *corev1.Pod                 // nil if it is a PodGroup
	PodGroup *schedulingv1beta1.PodGroup // nil if it is a pod
	Entries  []entry
	Missing  map[string]missing // see memory
	// GroupUnseen: the cache lacks the PodGroup of the pod, which may have the claims.
	GroupUnseen bool
	// Workloads: pods of PodGroups have claims. They have not where the feature gate is off.
	Workloads bool
}

// user returns what the claims are for.
func (s snapshot) user() user {
	if s.PodGroup != nil {
		return userOfGroup(s.PodGroup)
	}
	return userOfPod(s.Pod)
}

// owner returns it as an object.
func (s snapshot) owner() plan.Object {
	if s.PodGroup != nil {
		return s.PodGroup
	}
	return s.Pod
}

// entry is an entry of the spec that names a template.
type entry struct {
	Name, TemplateName string
	Recorded           string                            // the claim that the status names
	OfGroup            bool                              // a pod uses the claim of its PodGroup
	Claim              *resourcev1.ResourceClaim         // the recorded one, or one that was made for the entry
	Template           *resourcev1.ResourceClaimTemplate // nil if there is none
	Free               string                            // the name of a claim that is made now
	// Unread says that the cache lacks the recorded claim, and that it was not read live; Hidden that it exists.
	Unread, Hidden bool
}

// decision is what was found of the claims. planClaims makes it, and the report and the memory are made of it.
type decision struct {
	Claims  map[string]string  // those that are there, by the name of the entry
	Created map[string]string  // those that are created, likewise
	Missing map[string]missing // the templates that are missing, likewise
}

// missing is a template that is missing.
type missing struct {
	Template string
	Since    time.Time // since when this process knows
	Reported bool      // an event has told of it
}

// memory is what is remembered of a pod or a PodGroup: its missing templates, by the name of the entry.
type memory struct{ Missing map[string]missing }

// remember returns what is remembered.
func remember(_ time.Time, _ snapshot, d decision, _ plan.Outcome) *memory {
	if len(d.Missing) == 0 {
		return nil
	}
	return &memory{Missing: d.Missing}
}

// planClaims creates the claims that a pod or a PodGroup lacks. Each entry is planned by itself, so that one that fails
// holds up no other.
func planClaims(now time.Time, s snapshot) (decision, plan.Plan) {
	d := decision{Claims: map[string]string{}, Created: map[string]string{}, Missing: map[string]missing{}}
	if why := s.needsNone(); why != "" {
		return d, plan.Plan{Why: why}
	}
	var p plan.Plan
	var create plan.Each
	var waits []string
	u := s.user()
	for _, e := range s.Entries {
		switch {
		case e.Claim != nil && (e.Claim.Name == e.Recorded || e.Claim.DeletionTimestamp == nil):
			d.Claims[e.Name] = e.Claim.Name
		case e.Claim != nil: // its name is taken until it is gone
			waits = append(waits, fmt.Sprintf("until %s, which is being deleted, is gone", e.Claim.Name))
		case e.OfGroup:
			waits = append(waits, "for the claim of the PodGroup's entry "+e.Name)
		case e.Unread:
			p.Proof = append(p.Proof, claimRef(u.GetNamespace(), e.Recorded))
			waits = append(waits, "until the claim "+e.Recorded+" was read live")
		case e.Hidden:
			p.Requeue = plan.Sooner(p.Requeue, lookAgain)
			waits = append(waits, "until the cache shows the claim "+e.Recorded)
		case e.Template == nil:
			waits = append(waits, "for the template "+e.TemplateName)
			m, wait := s.Missing[e.Name].at(now, e.TemplateName)
			if p.Requeue = plan.Sooner(p.Requeue, wait); wait == 0 && !m.Reported {
				why := fmt.Sprintf("resourceclaimtemplate %q not found", e.TemplateName)
				p.Steps = append(p.Steps, plan.RecordEvent{Object: u.Object, Event: u.failed(e, why)})
				m.Reported = true
			}
			d.Missing[e.Name] = m
		default:
			d.Created[e.Name] = e.Free
			create.Sequences = append(create.Sequences, []plan.Step{u.creation(e)})
		}
	}
	if len(create.Sequences) > 0 {
		p.Steps = append(p.Steps, create)
	}
	p.Why = explain(u, d, waits)
	return d, p
}

// needsNone says why nothing is made; empty if something may be.
func (s snapshot) needsNone() string {
	switch {
	case s.owner().GetDeletionTimestamp() != nil: // RC-120
		return fmt.Sprintf("the %s is being deleted", s.user().kind.Kind)
	case s.PodGroup != nil:
		return ""
	case podutil.Finished(s.Pod): // MEND-31
		return "the pod has ended, and needs no claims"
	case s.Pod.Spec.SchedulingGroup != nil && !s.Workloads: // RC-160
		return "pods of PodGroups get no claims without the feature gate " + groupGate
	case s.GroupUnseen:
		return "wait for the PodGroup, which may have the claims"
	}
	return ""
}

// at returns what is known of a missing template now, and how long it takes until an event tells of it.
func (m missing) at(now time.Time, template string) (known missing, wait time.Duration) {
	if m.Template != template {
		m = missing{Template: template, Since: now}
	}
	return m, max(0, templateWait-now.Sub(m.Since))
}

// creation creates the claim of an entry, which the garbage collector deletes with its user (RC-124).
func (u user) creation(e entry) plan.Create {
	of := e.Template.Spec.DeepCopy()
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: e.Free, GenerateName: prefixOf(u.GetName(), e.Name), Labels: of.Labels,
			Annotations: of.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: u.kind.GroupVersion().String(), Kind: u.kind.Kind,
				Name: u.GetName(), UID: u.GetUID(), Controller: ptr.To(true)}},
		},
		Spec: of.Spec,
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resourcev1.PodResourceClaimAnnotation, e.Name)
	return plan.Create{Object: claim, Why: fmt.Sprintf("the %s lacks the claim of its entry %s", u.kind.Kind, e.Name),
		Events: plan.Events{Failed: u.failed(e, "{error}")}}
}

// failed is the event about a claim that its user has to wait for (RC-125).
func (u user) failed(e entry, why string) plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedResourceClaimCreation",
		Message: fmt.Sprintf("%sResourceClaim %s: %s", u.kind.Kind, e.Name, why)}
}

// explain says what is done, and what is waited for.
func explain(u user, d decision, waits []string) string {
	var parts []string
	if len(d.Created) > 0 {
		parts = append(parts, "create the claims "+strings.Join(slices.Sorted(maps.Values(d.Created)), ", "))
	}
	if len(waits) > 0 {
		parts = append(parts, "wait "+strings.Join(waits, ", "))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("the %s has all its claims", u.kind.Kind)
	}
	return strings.Join(parts, "; ")
}

// ended reports whether a pod needs its claims no more: it never runs again, or never will (RC-110). That does not
// change any more.
func ended(p *corev1.Pod) bool {
	return podutil.Finished(p) || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}
