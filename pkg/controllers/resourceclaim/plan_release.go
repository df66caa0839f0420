package resourceclaim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// protection is the finalizer of claims that are allocated. The scheduler adds it.
const protection plan.Protection = resourcev1.Finalizer

// claimed is a claim and what there is of the pods that have reserved it, own it, or run and lack a reservation.
// Observe fills it, and planRelease reads it. The object belongs to a shared cache.
type claimed struct {
	Claim *resourcev1.ResourceClaim
	Over  map[types.UID]bool // who needs the claim no more: pods that have ended, and who is gone
	// the cache lacks the pod that the claim belongs to: the garbage collector deletes the claim
	OwnerGone bool
	// Unread are those that the cache lacks, or shows with another uid: whether they exist has to be read live.
	Unread map[types.UID]plan.Ref
	// Unseen: one exists that the cache lacks, or may exist. Its end may cause no event.
	Unseen bool
	// Waiting are pods on nodes, or PodGroups of such, that use the claim and have not reserved it, by name (RC-127).
	Waiting []resourcev1.ResourceClaimConsumerReference
}

// planRelease takes reservations away of who needs the claim no more, and reserves it for pods that were placed
// without the scheduler. When nobody is left, the claim loses its allocation and its finalizer, and if its pod has
// ended, it is deleted. Each write depends on the version of the claim before it, so it is safe to stop after any.
func planRelease(_ time.Time, s claimed) plan.Plan {
	c := s.Claim
	if refs := s.proof(); len(refs) > 0 {
		return plan.Plan{Proof: refs, Why: "look whether those exist that have reserved the claim"}
	}
	freed := c.DeepCopy()
	isOver := func(r resourcev1.ResourceClaimConsumerReference) bool { return known(r) && s.Over[r.UID] }
	freed.Status.ReservedFor = slices.DeleteFunc(freed.Status.ReservedFor, isOver)
	dropped := len(c.Status.ReservedFor) - len(freed.Status.ReservedFor)
	refused := s.reserve(freed)
	added := len(freed.Status.ReservedFor) - len(c.Status.ReservedFor) + dropped
	unused := len(freed.Status.ReservedFor) == 0
	protected := slices.Contains(c.Finalizers, string(protection))
	release := unused && protected && (dropped > 0 || c.DeletionTimestamp != nil)
	var why []string
	note := func(text string, about ...any) { why = append(why, fmt.Sprintf(text, about...)) }
	if dropped > 0 {
		note("take away %d reservations of who has ended or is gone", dropped)
	}
	if added > 0 {
		note("reserve the claim for %d pods that were placed without it, or their PodGroups", added)
	}
	if release && c.Status.Allocation != nil {
		freed.Status.Allocation = nil
		note("give the devices back, as nobody uses the claim")
	}
	var p plan.Plan
	if len(why) > 0 {
		p.Steps = append(p.Steps, plan.Change{Old: c, New: freed, Subresource: plan.Status, CheckVersion: true,
			Why: strings.Join(why, "; ")})
	}
	if release {
		note("take the finalizer off, as no device is allocated")
		change := protection.Toggle(freed, why[len(why)-1])
		change.CheckVersion = true
		p.Steps = append(p.Steps, change)
	}
	if owner := podOf(c); unused && owner != nil && s.Over[owner.UID] && !s.OwnerGone && c.DeletionTimestamp == nil {
		note("delete the claim, as its pod has ended") // RC-134
		p.Steps = append(p.Steps, plan.Delete{Objects: []plan.Object{c}, CheckVersion: true, Why: why[len(why)-1]})
	}
	if refused > 0 {
		note("%d pods wait, as the claim has all reservations that it may have", refused)
	}
	if len(why) == 0 {
		note("nothing is to be released")
	}
	if s.Unseen {
		p.Requeue = lookAgain
	}
	p.Why = strings.Join(why, "; ")
	return p
}

// proof names who has to be read live: those that have reserved the claim, and its owner if nobody else has
// (RC-130).
func (s claimed) proof() (refs []plan.Ref) {
	ask := func(uid types.UID) {
		if ref, ok := s.Unread[uid]; ok {
			refs = append(refs, ref)
		}
	}
	used := false
	for _, r := range s.Claim.Status.ReservedFor {
		if !known(r) || !s.Over[r.UID] {
			used = true
		}
		if known(r) {
			ask(r.UID)
		}
	}
	if owner := podOf(s.Claim); !used && owner != nil && s.Claim.DeletionTimestamp == nil {
		ask(owner.UID)
	}
	return refs
}

// reserve adds the reservations of pods that wait for one, as many as the API allows, and returns how many it does
// not allow. A claim that is being deleted, or has no devices, can be reserved by nobody.
func (s claimed) reserve(c *resourcev1.ResourceClaim) (refused int) {
	if c.Status.Allocation == nil || c.DeletionTimestamp != nil {
		return 0
	}
	room := max(0, resourcev1.ResourceClaimReservedForMaxSize-len(c.Status.ReservedFor))
	n := min(room, len(s.Waiting))
	c.Status.ReservedFor = append(c.Status.ReservedFor, s.Waiting[:n]...)
	return len(s.Waiting) - n
}

// known reports whether a reservation is that of a pod or a PodGroup. Others stay as they are.
func known(r resourcev1.ResourceClaimConsumerReference) bool { return isPod(r) || isGroup(r) }

// podRef, groupRef and claimRef name what is read live.
func podRef(key plan.Key) plan.Ref {
	return plan.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: key.Namespace, Name: key.Name,
		Metadata: true}
}

func groupRef(key plan.Key) plan.Ref {
	return plan.Ref{Kind: schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"), Namespace: key.Namespace,
		Name: key.Name, Metadata: true}
}

func claimRef(namespace, name string) plan.Ref {
	return plan.Ref{Kind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), Namespace: namespace, Name: name,
		Metadata: true}
}
