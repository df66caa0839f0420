package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A request is answered with what there is of each pool of its driver: devices, which of them claims have or taints keep from pods,
// partitions, and capacities that claims share.
func TestRequestsForTheStatusOfPools(t *testing.T) { share(t).answersAboutPools() } // RPS-1 to RPS-7, RPS-9

func (b *bench) answersAboutPools() {
	b.Helper()
	requests := b.Client.ResourceV1alpha3().ResourcePoolStatusRequests()
	if !serves(b.T, b.Cluster, resourcev1alpha3.SchemeGroupVersion.WithResource("resourcepoolstatusrequests")) {
		return // it was not there, or is not enabled
	}
	driver := b.ns + ".example.com"
	b.publishPools(driver)
	b.allocate("one", driver, "plain", "d1", nil)
	b.allocate("half", driver, "parts", "half-1", nil)
	b.allocate("some", driver, "shared", "n0", map[resourcev1.QualifiedName]resource.Quantity{"bw": resource.MustParse("4Gi")})
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: b.ns}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: &driver, Pool: ptr.To("plain"), Device: ptr.To("d2")},
		Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}}
	if _, err := b.Client.ResourceV1().DeviceTaintRules().Create(b.Context(), rule, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = b.Client.ResourceV1().DeviceTaintRules().Delete(context.Background(), rule.Name, metav1.DeleteOptions{})
	})
	ask := &resourcev1alpha3.ResourcePoolStatusRequest{ObjectMeta: metav1.ObjectMeta{Name: b.ns},
		Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver}}
	if _, err := requests.Create(b.Context(), ask, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	var answer *resourcev1alpha3.ResourcePoolStatusRequestStatus
	b.wait("the request is answered", func() error {
		r, err := requests.Get(b.Context(), b.ns, metav1.GetOptions{})
		if err == nil && r.Status == nil {
			err = fmt.Errorf("it has no status")
		}
		answer = r.Status
		return err
	})
	want := "Calculated status for 3 pools\n" +
		"parts: 3 devices, 1 allocated, 0 unavailable, 2 available; Full 0 of 1; Half 1 of 2\n" +
		"plain: 4 devices, 1 allocated, 2 unavailable, 1 available\n" +
		"shared: 2 devices, 1 allocated, 0 unavailable, 1 available; 1 full, 1 partial; bw 4Gi of 20Gi"
	if got := answerText(answer); got != want {
		b.Errorf("the answer is\n%s", got)
	}
	if err := requests.Delete(b.Context(), b.ns, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// publishPools publishes three pools of a driver, as it does itself.
func (b *bench) publishPools(driver string) {
	b.Helper()
	slice := func(pool string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + pool}, Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, AllNodes: ptr.To(true), Devices: devices,
			Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}}}
	}
	taint := []resourcev1.DeviceTaint{{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoExecute}}
	part := func(name, profile, memory string) resourcev1.Device {
		return resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"profile": {StringValue: &profile}},
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu-0",
				Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(memory)}}}}}
	}
	capacity := map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"bw": {Value: resource.MustParse("10Gi")}}
	counters := slice("counters")
	counters.Spec.Pool.Name, counters.Spec.Pool.ResourceSliceCount = "parts", 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu-0",
		Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("80Gi")}}}}
	parts := slice("parts", part("full", "Full", "80Gi"), part("half-1", "Half", "40Gi"), part("half-2", "Half", "40Gi"))
	parts.Spec.Pool.ResourceSliceCount, parts.Spec.PartitionTypeAttribute = 2, ptr.To(resourcev1.FullyQualifiedName(driver+"/profile"))
	for _, s := range []*resourcev1.ResourceSlice{
		slice("plain", resourcev1.Device{Name: "d0"}, resourcev1.Device{Name: "d1", Taints: taint}, resourcev1.Device{Name: "d2"},
			resourcev1.Device{Name: "d3", Taints: taint}),
		slice("shared", resourcev1.Device{Name: "n0", AllowMultipleAllocations: ptr.To(true), Capacity: capacity},
			resourcev1.Device{Name: "n1", AllowMultipleAllocations: ptr.To(true), Capacity: capacity}),
		counters, parts,
	} {
		if _, err := b.Client.ResourceV1().ResourceSlices().Create(b.Context(), s, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = b.Client.ResourceV1().ResourceSlices().Delete(context.Background(), s.Name, metav1.DeleteOptions{})
		})
	}
}

// allocate makes a claim that has a device, for somebody who is no pod.
func (b *bench) allocate(name, driver, pool, device string, consumed map[resourcev1.QualifiedName]resource.Quantity) {
	b.Helper()
	claims := b.Client.ResourceV1().ResourceClaims(b.ns)
	c, err := claims.Create(b.Context(), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}}}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	r := resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: pool, Device: device, ConsumedCapacity: consumed}
	if consumed != nil {
		r.ShareID = &c.UID
	}
	c.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{r}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "consumers", Name: name, UID: c.UID}},
	}
	if _, err := claims.UpdateStatus(b.Context(), c, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// answerText is an answer in a few words.
func answerText(s *resourcev1alpha3.ResourcePoolStatusRequestStatus) string {
	lines := []string{s.Conditions[0].Message}
	for _, p := range s.Pools {
		line := fmt.Sprintf("%s: %d devices, %d allocated, %d unavailable, %d available", p.PoolName, ptr.Deref(p.TotalDevices, -1),
			ptr.Deref(p.AllocatedDevices, -1), ptr.Deref(p.UnavailableDevices, -1), ptr.Deref(p.AvailableDevices, -1))
		for _, part := range p.PartitionSummary {
			line += fmt.Sprintf("; %s %d of %d", part.Type, ptr.Deref(part.Allocatable, -1), ptr.Deref(part.Total, -1))
		}
		if sum := p.ShareableSummary; sum != nil {
			line += fmt.Sprintf("; %d full, %d partial", ptr.Deref(sum.FullyAvailableDevices, -1),
				ptr.Deref(sum.PartiallyAvailableDevices, -1))
			for _, c := range sum.Capacity {
				line += fmt.Sprintf("; %s %s of %s", c.Name, c.Consumed, c.Total)
			}
		}
		lines = append(lines, line+ptr.Deref(p.ValidationError, ""))
	}
	return strings.Join(lines, "\n")
}
