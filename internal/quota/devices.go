package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceClaimFields are the paths of what [ResourceClaim] reads of ResourceClaims.
func ResourceClaimFields() []string {
	return []string{"metadata.annotations[" + resourcev1.ExtendedResourceClaimAnnotation + "]", "spec.devices.requests"}
}

// allDevices is what a request for all devices is charged with: no claim can have more (RQ-31).
const allDevices = resourcev1.AllocationResultsMaxSize

// Owner is what is known of the pod that a ResourceClaim was made for.
type Owner struct {
	UID      types.UID
	Charged  corev1.ResourceList // by the pod itself
	Recorded string              // the claim that its status names for its extended resources
	Oldest   types.UID           // of its claims for extended resources
}

// deviceName reports whether a name in a quota limits devices.
func deviceName(name corev1.ResourceName, g Gates) bool {
	if strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) {
		return true
	}
	request, ok := strings.CutPrefix(string(name), requestsPrefix)
	return ok && g.ExtendedResourcesByClaims &&
		(extended(corev1.ResourceName(request)) || deviceClass(corev1.ResourceName(request)))
}

// ForExtendedResources returns the pod that a ResourceClaim was made for because the pod asks for extended resources;
// nil if it was not.
func ForExtendedResources(c *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(c); ref != nil && ref.Kind == "Pod" && ref.APIVersion == "v1" {
		return ref
	}
	return nil
}

// ResourceClaim returns what a ResourceClaim is charged with. Classes are the extended resources that device classes
// stand for. Owner is the pod that it was made for, nil if there is none any more (RQ-31, RQ-32).
func ResourceClaim(c *resourcev1.ResourceClaim, classes map[string]corev1.ResourceName, owner *Owner, g Gates) Item {
	i := Object(ResourceClaims())
	devices := devicesPerClass(c)
	extended := corev1.ResourceList{}
	for class, n := range devices {
		i.Usage[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = quantity(n)
		if !g.ExtendedResourcesByClaims {
			continue
		}
		Add(extended,
			corev1.ResourceList{corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass + class): quantity(
				n)})
		if name := classes[class]; name != "" {
			Add(extended, corev1.ResourceList{requestsPrefix + name: quantity(n)})
		}
	}
	if pays(c, owner) {
		extended = Over(extended, owner.Charged)
	}
	Add(i.Usage, extended)
	return i
}

// pays reports whether the owner is charged itself with what the claim was made for.
func pays(c *resourcev1.ResourceClaim, owner *Owner) bool {
	ref := ForExtendedResources(c)
	if ref == nil || owner == nil || ref.UID != owner.UID {
		return false
	}
	if owner.Recorded != "" {
		return owner.Recorded == c.Name
	}
	return owner.Oldest == c.UID
}

// Older reports whether a ResourceClaim is older than another one, or as old with a smaller name.
func Older(a, b *resourcev1.ResourceClaim) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// devicesPerClass counts the devices that a claim asks for. Of alternatives the largest counts, for each class.
func devicesPerClass(c *resourcev1.ResourceClaim) map[string]int64 {
	all := map[string]int64{}
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil {
			all[r.Exactly.DeviceClassName] += devices(r.Exactly.AllocationMode, r.Exactly.Count)
			continue
		}
		most := map[string]int64{}
		for _, s := range r.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], devices(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			all[class] += n
		}
	}
	return all
}

// devices returns how many devices one request asks for. No server accepts numbers that do not fit.
func devices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return min(max(count, 0), 1<<32)
	case resourcev1.DeviceAllocationModeAll:
		return allDevices
	}
	return 0
}
