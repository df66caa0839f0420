package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

// storageClassInfix parts the name of a storage class from what is charged to it.
const storageClassInfix = ".storageclass.storage.k8s.io/"

// ServiceFields are the paths of what [Service] reads of Services.
func ServiceFields() []string {
	return []string{"spec.type", "spec.ports", "spec.allocateLoadBalancerNodePorts"}
}

// serviceName reports whether a name in a quota limits services, besides their number.
func serviceName(name corev1.ResourceName) bool {
	return name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
}

// Service returns what a Service is charged with (RQ-28).
func Service(s *corev1.Service) Item {
	i := Object(Services())
	ports, balancers := 0, 0
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(s.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		ports, balancers = len(s.Spec.Ports), 1
		if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	}
	i.Usage[corev1.ResourceServicesNodePorts] = quantity(int64(ports))
	i.Usage[corev1.ResourceServicesLoadBalancers] = quantity(int64(balancers))
	return i
}

// ClaimFields are the paths of what [Claim] reads of PersistentVolumeClaims.
func ClaimFields() []string {
	return []string{
		"metadata.annotations[" + corev1.BetaStorageClassAnnotation + "]", "spec.storageClassName", "spec.resources",
		"spec.volumeAttributesClassName",
		"status.allocatedResources", "status.currentVolumeAttributesClassName", "status.modifyVolumeStatus",
	}
}

// claimName reports whether a name in a quota limits claims, besides their number.
func claimName(name corev1.ResourceName) bool {
	if _, what, ok := strings.Cut(string(name), storageClassInfix); ok {
		return what == string(corev1.ResourceRequestsStorage) || what == string(corev1.ResourcePersistentVolumeClaims)
	}
	return name == corev1.ResourceRequestsStorage
}

// Claim returns what a PersistentVolumeClaim is charged with (RQ-29).
func Claim(c *corev1.PersistentVolumeClaim) Item {
	i := Object(Claims())
	class := volume.GetPersistentVolumeClaimClass(c)
	prefix := corev1.ResourceName(class + storageClassInfix)
	if class != "" {
		i.Usage[prefix+corev1.ResourcePersistentVolumeClaims] = one()
	}
	storage, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if ok {
		if allocated := c.Status.AllocatedResources[corev1.ResourceStorage]; allocated.Cmp(storage) > 0 {
			storage = allocated
		}
		storage = storage.DeepCopy()
		storage.RoundUp(0)
		i.Usage[corev1.ResourceRequestsStorage] = storage
		if class != "" {
			i.Usage[prefix+corev1.ResourceRequestsStorage] = storage
		}
	}
	i.Traits = Traits{Kind: claimTrait}
	target := ""
	if m := c.Status.ModifyVolumeStatus; m != nil {
		target = m.TargetVolumeAttributesClassName
	}
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName,
		&target} {
		if name != nil && *name != "" {
			i.Traits.VolumeAttributesClasses = append(i.Traits.VolumeAttributesClasses, *name)
		}
	}
	return i
}
