package apiserver

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func defaultAdmissionPolicy(p *admissionv1.ValidatingAdmissionPolicy) {
	orPointer(&p.Spec.FailurePolicy, admissionv1.Fail)
	m := p.Spec.MatchConstraints
	if m == nil {
		return
	}
	orPointer(&m.NamespaceSelector, metav1.LabelSelector{})
	orPointer(&m.ObjectSelector, metav1.LabelSelector{})
	orPointer(&m.MatchPolicy, admissionv1.Equivalent)
	for i := range m.ResourceRules {
		orPointer(&m.ResourceRules[i].Scope, admissionv1.AllScopes)
	}
}

func defaultPriorityClass(p *schedulingv1.PriorityClass) {
	orPointer(&p.PreemptionPolicy, corev1.PreemptLowerPriority)
}

// createPodGroup does what the admission plugins do that protect PodGroups in use, and give them a priority.
func createPodGroup(_ *Server, g *schedulingv1beta1.PodGroup) {
	protect(g, "scheduling.k8s.io/podgroup-protection")
	orPointer(&g.Spec.Priority, 0)
}

func defaultPodGroup(g *schedulingv1beta1.PodGroup) {
	if g.Spec.DisruptionMode == nil {
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	}
}

func defaultPoolRequest(r *resourcev1alpha3.ResourcePoolStatusRequest) {
	orPointer(&r.Spec.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)
}

// createPriorityClass: its changes are not counted.
func createPriorityClass(_ *Server, p *schedulingv1.PriorityClass) { p.Generation = 1 }

func defaultStorageClass(s *storagev1.StorageClass) {
	orPointer(&s.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	orPointer(&s.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultCSIDriver(d *storagev1.CSIDriver) {
	orPointer(&d.Spec.AttachRequired, true)
	orPointer(&d.Spec.PodInfoOnMount, false)
	orPointer(&d.Spec.StorageCapacity, false)
	orPointer(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	orPointer(&d.Spec.RequiresRepublish, false)
	orPointer(&d.Spec.SELinuxMount, false)
	orPointer(&d.Spec.PreventPodSchedulingIfMissing, false)
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// createCSIDriver: its changes are counted, but from zero.
func createCSIDriver(_ *Server, d *storagev1.CSIDriver) { d.Generation = 0 }

func defaultRoleBinding(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) }

func defaultClusterRoleBinding(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) }

func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	orDefault(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind != rbacv1.ServiceAccountKind {
			orDefault(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func defaultPodCertificateRequest(r *certificatesv1.PodCertificateRequest) {
	orPointer(&r.Spec.MaxExpirationSeconds, 24*60*60)
}

func defaultResourceClaim(c *resourcev1.ResourceClaim) {
	for i := range c.Spec.Devices.Requests {
		if r := c.Spec.Devices.Requests[i].Exactly; r != nil {
			orDefault(&r.AllocationMode, resourcev1.DeviceAllocationModeExactCount)
			if r.AllocationMode == resourcev1.DeviceAllocationModeExactCount {
				orDefault(&r.Count, 1)
			}
		}
	}
}

func defaultResourceSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		for j := range s.Spec.Devices[i].Taints {
			orPointer(&s.Spec.Devices[i].Taints[j].TimeAdded, now())
		}
	}
}

func defaultDeviceTaintRule(r *resourcev1.DeviceTaintRule) { orPointer(&r.Spec.Taint.TimeAdded, now()) }

// updateDeviceTaintRule has another effect begin now, unless the update says when.
func updateDeviceTaintRule(r, old *resourcev1.DeviceTaintRule, subresource string) {
	keepMetaWithStatus(r, old, subresource)
	is, was := &r.Spec.Taint, old.Spec.Taint
	if is.Effect != was.Effect && is.TimeAdded.Equal(was.TimeAdded) {
		is.TimeAdded = ptr.To(now())
	}
}

// createSigningRequest notes who asks. The server in memory knows no users: all are its administrator.
func createSigningRequest(_ *Server, r *certificatesv1.CertificateSigningRequest) {
	r.Spec.Username, r.Spec.Groups = "admin", []string{"system:masters", "system:authenticated"}
}

// updateSigningRequest fills in the times of conditions.
func updateSigningRequest(r, _ *certificatesv1.CertificateSigningRequest, _ string) {
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now()
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now()
		}
	}
}
