package resourceclaim

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// user is what claims are made for: a pod or, with the feature gate, a PodGroup (RC-160).
type user struct {
	plan.Object
	kind    schema.GroupVersionKind
	entries []corev1.PodResourceClaim
	records podutil.DeviceRecords
}

// userOfPod returns a pod with its entries.
func userOfPod(p *corev1.Pod) user {
	return user{p, corev1.SchemeGroupVersion.WithKind("Pod"), p.Spec.ResourceClaims, podutil.DeviceRecordsOf(p)}
}

// userOfGroup returns a PodGroup with its entries.
func userOfGroup(g *schedulingv1beta1.PodGroup) user {
	u := user{Object: g, kind: schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup")}
	for _, e := range g.Spec.ResourceClaims {
		u.entries = append(u.entries, corev1.PodResourceClaim(e))
	}
	statuses := make([]corev1.PodResourceClaimStatus, len(g.Status.ResourceClaimStatuses))
	for i, s := range g.Status.ResourceClaimStatuses {
		statuses[i] = corev1.PodResourceClaimStatus(s)
	}
	u.records = podutil.RecordsOf(statuses)
	return u
}

// made returns the names of the claims that were made for the user, as its status says.
func (u user) made() []string { return u.records.Made(u.entries) }

// named returns the names of the claims that its entries name.
func (u user) named() []string { return podutil.NamedClaims(u.entries) }

// templates returns the names of the templates of the user, each once.
func (u user) templates() (names []string) {
	for _, e := range u.entries {
		if e.ResourceClaimTemplateName != nil && e.ResourceClaimName == nil {
			names = append(names, *e.ResourceClaimTemplateName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// has reports whether an entry is one of the user's, with the same name and the same source: then a pod uses the claim
// of its PodGroup, and has none of its own.
func (u user) has(e corev1.PodResourceClaim) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return slices.ContainsFunc(u.entries, func(own corev1.PodResourceClaim) bool {
		return own.Name == e.Name && same(own.ResourceClaimName, e.ResourceClaimName) &&
			same(own.ResourceClaimTemplateName, e.ResourceClaimTemplateName)
	})
}

// consumer is the user as a claim names it that it has reserved.
func (u user) consumer() resourcev1.ResourceClaimConsumerReference {
	r := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u.GetName(), UID: u.GetUID()}
	if u.kind.Kind == "PodGroup" {
		r.APIGroup, r.Resource = u.kind.Group, "podgroups"
	}
	return r
}

// isPod and isGroup report whether a reservation is that of a pod or of a PodGroup. Others stay as they are.
func isPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods"
}

func isGroup(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == schedulingv1beta1.GroupName && r.Resource == "podgroups"
}

// podOf returns the reference to the pod that a claim belongs to; nil if there is none.
func podOf(c *resourcev1.ResourceClaim) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(c)
	if ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return nil
	}
	return ref
}

// groupOf returns the reference to the PodGroup that a claim belongs to, of any version; nil if there is none.
func groupOf(c metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(c)
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() !=
		(schema.GroupKind{Group: schedulingv1beta1.GroupName, Kind: "PodGroup"}) {
		return nil
	}
	return ref
}

// owned reports whether a pod or a PodGroup of that uid is the controller of a claim.
func owned(c *resourcev1.ResourceClaim, by types.UID) bool {
	ref := cmp.Or(podOf(c), groupOf(c))
	return ref != nil && ref.UID == by
}
