package apiserver

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func defaultService(service *corev1.Service) {
	s := &service.Spec
	orDefault(&s.Type, corev1.ServiceTypeClusterIP)
	orDefault(&s.SessionAffinity, corev1.ServiceAffinityNone)
	if s.Type != corev1.ServiceTypeExternalName {
		orPointer(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	for i := range s.Ports {
		orDefault(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		orDefault(&s.Ports[i].TargetPort, intstr.FromInt32(s.Ports[i].Port))
	}
}

// createService gives a service its address.
func createService(server *Server, service *corev1.Service) {
	s := &service.Spec
	if s.Type == corev1.ServiceTypeExternalName {
		return
	}
	if s.ClusterIP == "" {
		server.addresses++
		s.ClusterIP = fmt.Sprintf("10.0.%d.%d", server.addresses/250, 1+server.addresses%250)
	}
	s.ClusterIPs = []string{s.ClusterIP}
	orPointer(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if s.IPFamilies == nil {
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
}

// updateService keeps the address.
func updateService(service, old *corev1.Service, _ string) {
	s, before := &service.Spec, &old.Spec
	if s.Type == corev1.ServiceTypeExternalName {
		return
	}
	orDefault(&s.ClusterIP, before.ClusterIP)
	if s.ClusterIPs == nil {
		s.ClusterIPs = before.ClusterIPs
	}
	if s.IPFamilyPolicy == nil {
		s.IPFamilyPolicy = before.IPFamilyPolicy
	}
	if s.IPFamilies == nil {
		s.IPFamilies = before.IPFamilies
	}
}

func defaultEndpoints(e *corev1.Endpoints) {
	subsets := e.Subsets
	for i := range subsets {
		for j := range subsets[i].Ports {
			orDefault(&subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func createNamespace(_ *Server, n *corev1.Namespace) {
	n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// defaultNamespace gives a namespace the label by which it is selected.
func defaultNamespace(n *corev1.Namespace) {
	if n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	n.Labels = maps.Clone(n.Labels)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// doomNamespace: a namespace that is to go says so in its phase. It has no grace period.
func doomNamespace(n *corev1.Namespace) {
	n.Status.Phase, n.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil
}

// holdNamespace: the finalizers in its spec hold a namespace, until the namespace controller has emptied it.
func holdNamespace(n *corev1.Namespace) bool { return len(n.Spec.Finalizers) > 0 }

func defaultEndpointSlice(e *discoveryv1.EndpointSlice) {
	for i := range e.Ports {
		orPointer(&e.Ports[i].Name, "")
		orPointer(&e.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func defaultSecret(s *corev1.Secret) {
	orDefault(&s.Type, corev1.SecretTypeOpaque)
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	orPointer(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	orDefault(&c.Status.Phase, corev1.ClaimPending)
}

func defaultVolume(v *corev1.PersistentVolume) {
	orPointer(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	orDefault(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	orDefault(&v.Status.Phase, corev1.VolumePending)
	if v.Spec.HostPath != nil {
		orPointer(&v.Spec.HostPath.Type, corev1.HostPathUnset)
	}
}

// createClaim does what the admission plugin does that protects claims in use.
func createClaim(_ *Server, c *corev1.PersistentVolumeClaim) {
	protect(c, "kubernetes.io/pvc-protection")
}

// protect gives a new object the finalizer of the controller that protects objects of the kind.
func protect(o Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

func createAttributesClass(_ *Server, c *storagev1.VolumeAttributesClass) {
	protect(c, "kubernetes.io/vac-protection")
}

func createVolume(_ *Server, v *corev1.PersistentVolume) {
	protect(v, "kubernetes.io/pv-protection")
	v.Status.LastPhaseTransitionTime = ptr.To(now())
}

// updateVolume notes when the phase has changed.
func updateVolume(v, old *corev1.PersistentVolume, _ string) {
	if v.Status.Phase != old.Status.Phase {
		v.Status.LastPhaseTransitionTime = ptr.To(now())
	}
}
