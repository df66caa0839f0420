package pvcprotection

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// protection is the finalizer of PersistentVolumeClaims (SM-30).
const protection plan.Protection = "kubernetes.io/pvc-protection"

const (
	mostUnknown = 10               // pods that the cache lacks are read live one by one; if it lacks more, all are
	mostChanges = 100              // in one reconcile of a namespace
	maxReasons  = 3                // claims that the reason of a plan names with the pods that keep them
	eventDelay  = 10 * time.Second // after the deletion of a claim, an event says which pod keeps it (SM-44)
	lookAgain   = 5 * time.Second  // after a pod was found that the cache did not know of: its end may cause no event
)

// snapshot is the claims of one namespace with something to do, and who uses them. Observe fills it from the
// caches, prove from the live list, and planClaims reads it. The objects belong to shared caches.
type snapshot struct {
	Namespace string
	Claims    []*claim      // by name: those that lack the finalizer, and those that are being deleted and have it
	NextEvent time.Duration // until an event is to say why a claim stays; zero if none is
	// Pause is the time until the pods of the namespace may be listed live again; zero if they may be, or if nobody
	// needs that.
	Pause   time.Duration
	Listed  bool     // the pods on nodes were listed live
	Unknown []string // those of them that the cache lacks
}

// claim is a claim with something to do, and what is known of who uses it.
type claim struct {
	Claim    *corev1.PersistentVolumeClaim
	Pod      string // that uses it; empty if none is known
	Checked  bool   // Pod was found in a live list, or is not in there either
	EventDue bool   // an event is to say that the pod keeps it
}

// planClaims gives claims their finalizer, and takes it off those that are being deleted and that no pod uses. All
// changes are updates of the versions that were observed (SM-38), and a failure ends only its own.
func planClaims(_ time.Time, s snapshot) plan.Plan {
	var each plan.Each
	var kept []string
	var events []plan.Step
	p := plan.Plan{Requeue: s.Pause}
	left := 0
	for _, c := range s.Claims {
		var why string
		switch {
		case c.Claim.DeletionTimestamp == nil:
			why = "the claim lacks the finalizer that protects it while a pod uses it"
		case c.Pod != "":
			if kept = append(kept, fmt.Sprintf("%s because the pod %s uses it", c.Claim.Name, c.Pod)); c.Checked {
				p.Requeue = lookAgain
			}
			if c.EventDue {
				events = append(events,
					plan.RecordEvent{Object: c.Claim, Event: plan.Event{Type: corev1.EventTypeNormal, Reason: "InUse",
						Message: fmt.Sprintf(
							"The claim is being deleted, and stays until no pod uses it. The pod %s does.", c.Pod)}})
			}
			continue
		case !c.Checked:
			if kept = append(kept, c.Claim.Name+" until the pods have been listed"); s.Pause == 0 {
				p.Proof = s.proof()
			}
			continue
		default:
			why = "the claim is being deleted and no pod uses it: take its finalizer off"
		}
		if len(each.Sequences) == mostChanges {
			left++
			continue
		}
		each.Sequences = append(each.Sequences, []plan.Step{protection.Toggle(c.Claim, why)})
	}
	if left > 0 {
		p.Requeue = time.Millisecond
	}
	if s.NextEvent > 0 && (p.Requeue == 0 || s.NextEvent < p.Requeue) {
		p.Requeue = s.NextEvent
	}
	if p.Steps = events; len(each.Sequences) > 0 {
		p.Steps = append(p.Steps, each)
	}
	p.Why = explain(len(each.Sequences), left, kept)
	return p
}

// proof names what has to be read live to know who uses the claims: which pods are on nodes, and then those of them
// that the cache lacks.
func (s snapshot) proof() []plan.Ref {
	if !s.Listed {
		return []plan.Ref{podsOnNodes(s.Namespace)}
	}
	return wholePods(s.Namespace, s.Unknown)
}

// podsOnNodes names the metadata of all pods of a namespace that are assigned to nodes.
func podsOnNodes(namespace string) plan.Ref {
	ref := podsWith(namespace, onNode())
	ref.Metadata = true
	return ref
}

// wholePods names pods that are assigned to nodes: few of them one by one, or all pods of the namespace.
func wholePods(namespace string, names []string) (refs []plan.Ref) {
	if len(names) > mostUnknown {
		return []plan.Ref{podsWith(namespace, onNode())}
	}
	for _, name := range names {
		one := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
		refs = append(refs, podsWith(namespace, fields.AndSelectors(onNode(), one)))
	}
	return refs
}

// podsWith names the pods of a namespace that a field selector matches.
func podsWith(namespace string, selector fields.Selector) plan.Ref {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	return plan.Ref{Kind: kind, Namespace: namespace, All: true, Fields: selector.String()}
}

// onNode selects the pods that are assigned to a node.
func onNode() fields.Selector { return fields.OneTermNotEqualSelector("spec.nodeName", "") }

// explain says what is done in a namespace, and what is not.
func explain(changes, left int, kept []string) string {
	why := "there is nothing to do"
	if changes > 0 {
		why = fmt.Sprintf("add or remove the finalizers of %d claims, and later of %d", changes, left)
	}
	if len(kept) == 0 {
		return why
	}
	why += fmt.Sprintf("; %d claims are being deleted and stay: %s", len(kept),
		strings.Join(kept[:min(len(kept), maxReasons)], ", "))
	if len(kept) > maxReasons {
		why += ", and others"
	}
	return why
}

// uses reports whether a pod keeps a claim from going (SM-36): it is assigned to a node, and a volume names the
// claim, or is an ephemeral one whose claim this is. A pod whose end is decided does not keep the claims that it
// controls, which are those of ephemeral volumes and those that a StatefulSet deletes with the pod: each would wait
// for the other.
func uses(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	return p.Spec.NodeName != "" && mounts(p, c) && !(metav1.IsControlledBy(c, p) && over(p))
}

// mounts reports whether a volume of a pod names the claim, or is an ephemeral one whose claim this is.
func mounts(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	if p.Namespace != c.Namespace {
		return false
	}
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name,
			v.Ephemeral != nil && podutil.EphemeralClaim(p, v) == c.Name && metav1.IsControlledBy(c, p):
			return true
		}
	}
	return false
}

// over reports whether a pod has no time left to end.
func over(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 1) == 0
}
