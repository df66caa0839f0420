package podutil

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// DeviceRecords are the ResourceClaims that the status of a pod names for its entries, by the name of the entry; empty
// if it says that the entry needs none (RC-102).
type DeviceRecords map[string]string

// DeviceRecordsOf returns what the status of a pod records.
func DeviceRecordsOf(p *corev1.Pod) DeviceRecords { return RecordsOf(p.Status.ResourceClaimStatuses) }

// RecordsOf returns what statuses record. PodGroups have the same.
func RecordsOf(statuses []corev1.PodResourceClaimStatus) DeviceRecords {
	r := DeviceRecords{}
	for _, s := range statuses {
		r[s.Name] = ptr.Deref(s.ResourceClaimName, "")
	}
	return r
}

// Wanted returns the claim that an entry with a template has; empty if none is recorded. If ok is false, it is no such
// entry, or needs none.
func (r DeviceRecords) Wanted(e corev1.PodResourceClaim) (claim string, ok bool) {
	claim, known := r[e.Name]
	return claim, e.ResourceClaimTemplateName != nil && e.ResourceClaimName == nil && (!known || claim != "")
}

// NamedDeviceClaims returns the names of the ResourceClaims that exist before a pod, which its entries name, each once.
func NamedDeviceClaims(p *corev1.Pod) []string { return NamedClaims(p.Spec.ResourceClaims) }

// NamedClaims returns the names of the ResourceClaims that entries name, each once. PodGroups have such entries, too.
func NamedClaims(entries []corev1.PodResourceClaim) (names []string) {
	for _, e := range entries {
		if e.ResourceClaimName != nil {
			names = append(names, *e.ResourceClaimName)
		}
	}
	return distinct(names)
}

// MadeDeviceClaims returns the names of the ResourceClaims that were made for the entries of a pod, as its status
// says, each once.
func MadeDeviceClaims(p *corev1.Pod) []string {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil
	}
	return DeviceRecordsOf(p).Made(p.Spec.ResourceClaims)
}

// Made returns the names of the ResourceClaims that are recorded for entries with a template, each once.
func (r DeviceRecords) Made(entries []corev1.PodResourceClaim) (names []string) {
	for _, e := range entries {
		if name, ok := r.Wanted(e); ok && name != "" {
			names = append(names, name)
		}
	}
	return distinct(names)
}

// ExtendedDeviceClaim returns the name of the ResourceClaim that the scheduler has made for the extended resources of a
// pod (RC-103); empty if there is none.
func ExtendedDeviceClaim(p *corev1.Pod) string {
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		return s.ResourceClaimName
	}
	return ""
}

// DeviceClaims returns the names of all ResourceClaims of a pod, each once.
func DeviceClaims(p *corev1.Pod) []string {
	names := append(NamedDeviceClaims(p), MadeDeviceClaims(p)...)
	if name := ExtendedDeviceClaim(p); name != "" {
		names = append(names, name)
	}
	return distinct(names)
}

// distinct returns each name once.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
