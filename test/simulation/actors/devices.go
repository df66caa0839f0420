package actors

import (
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// allocate gives all claims of a pod devices and reserves them for it, as the scheduler does before it binds the pod. It reports whether
// the pod has all its claims.
func (c *Cluster) allocate(p *corev1.Pod) bool {
	names, ok := c.deviceClaims(p)
	if !ok {
		return false
	}
	for _, name := range names {
		claim := apiserver.One[*resourcev1.ResourceClaim](c.server, p.Namespace, name)
		if claim == nil || claim.DeletionTimestamp != nil {
			return false
		}
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			_, _ = Edit(c.server, "scheduler", p.Namespace, name, "", func(now *resourcev1.ResourceClaim) {
				now.Finalizers = append(now.Finalizers, resourcev1.Finalizer)
			})
		}
		_, _ = Edit(c.server, "scheduler", p.Namespace, name, "status", func(now *resourcev1.ResourceClaim) { Allocate(now, Pool, p) })
	}
	return true
}

// Pool is where the scheduler takes devices from, and Devices how many it has: gpu-0 and so on.
const (
	Pool    = "pool"
	Devices = 4
)

// Allocate gives a claim a device of a pool, which follows from its name, and reserves it for a pod.
func Allocate(c *resourcev1.ResourceClaim, pool string, p *corev1.Pod) {
	if c.Status.Allocation == nil {
		h := fnv.New32a()
		_, _ = h.Write([]byte(c.Name))
		result := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: Driver, Pool: pool,
			Device: fmt.Sprint("gpu-", h.Sum32()%Devices)}
		for _, r := range c.Spec.Devices.Requests {
			if r.Exactly != nil {
				result.Tolerations = append(result.Tolerations, r.Exactly.Tolerations...)
			}
		}
		c.Status.Allocation = &resourcev1.AllocationResult{AllocationTimestamp: ptr.To(metav1.Now().Rfc3339Copy()),
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}}}
	}
	reserved := slices.ContainsFunc(c.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
	if !reserved {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
}

// deviceClaims returns the names of the claims of a pod. If ok is false, one is missing that a template is to make.
func (c *Cluster) deviceClaims(p *corev1.Pod) (names []string, ok bool) {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil, true
	}
	now := apiserver.One[*corev1.Pod](c.server, p.Namespace, p.Name)
	if now == nil || now.UID != p.UID || now.DeletionTimestamp != nil || finished(now) {
		return nil, false
	}
	for _, e := range now.Spec.ResourceClaims {
		if e.ResourceClaimName != nil {
			names = append(names, *e.ResourceClaimName)
			continue
		}
		i := slices.IndexFunc(now.Status.ResourceClaimStatuses,
			func(s corev1.PodResourceClaimStatus) bool { return s.Name == e.Name && s.ResourceClaimName != nil })
		if i < 0 {
			return nil, false
		}
		name := ptr.Deref(now.Status.ResourceClaimStatuses[i].ResourceClaimName, "")
		claim := apiserver.One[*resourcev1.ResourceClaim](c.server, p.Namespace, name)
		if claim == nil || !metav1.IsControlledBy(claim, now) {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}
