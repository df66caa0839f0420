package resourcepoolstatusrequest

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const driver = "gpu.example.com"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*request)

// newRequest asks for all pools of the driver.
func newRequest(edits ...edit) *request {
	r := &request{
		ObjectMeta: metav1.ObjectMeta{Name: "ask", UID: "uid-ask", ResourceVersion: "5", CreationTimestamp: metav1.NewTime(epoch)},
		Spec:       resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver, Limit: ptr.To[int32](100)},
	}
	for _, e := range edits {
		e(r)
	}
	return r
}

func ofPool(name string) edit { return func(r *request) { r.Spec.PoolName = &name } }

func atMost(n int32) edit { return func(r *request) { r.Spec.Limit = &n } }

func groupedBy(attribute string) edit {
	return func(r *request) { r.Spec.DefaultPartitionTypeAttribute = &attribute }
}

// answered is a request with a condition of that type, since some time.
func answered(condition string, ago time.Duration) edit {
	return func(r *request) {
		r.Status = &status{PoolCount: ptr.To[int32](0), Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(epoch.Add(-ago))}}}
	}
}

type sliceEdit = func(*resourcev1.ResourceSlice)

// newSlice is the only slice of a pool, on a node.
func newSlice(name, pool string, edits ...sliceEdit) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: ptr.To("node"),
			Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}},
	}
	for _, e := range edits {
		e(s)
	}
	return s
}

func of(generation, slices int64) sliceEdit {
	return func(s *resourcev1.ResourceSlice) {
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, slices
	}
}

func on(node string) sliceEdit { return func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = &node } }

func onAny(s *resourcev1.ResourceSlice) { s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true) }

type deviceEdit = func(*resourcev1.Device)

func has(name string, edits ...deviceEdit) sliceEdit {
	return func(s *resourcev1.ResourceSlice) {
		d := resourcev1.Device{Name: name}
		for _, e := range edits {
			e(&d)
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
}

func tainted(effect resourcev1.DeviceTaintEffect) deviceEdit {
	return func(d *resourcev1.Device) {
		d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: "x", Effect: effect})
	}
}

// costs has a device take so much of counters of a set.
func costs(set, counter, n string) deviceEdit {
	return func(d *resourcev1.Device) {
		d.ConsumesCounters = append(d.ConsumesCounters, resourcev1.DeviceCounterConsumption{CounterSet: set,
			Counters: map[string]resourcev1.Counter{counter: {Value: resource.MustParse(n)}}})
	}
}

func attribute(name, value string) deviceEdit {
	return func(d *resourcev1.Device) {
		d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{resourcev1.QualifiedName(name): {StringValue: &value}}
	}
}

// shared has a device be shared by several claims, with capacities such as "memory=10Gi".
func shared(capacities ...string) deviceEdit {
	return func(d *resourcev1.Device) {
		d.AllowMultipleAllocations = ptr.To(true)
		for _, one := range capacities {
			name, n, _ := strings.Cut(one, "=")
			if d.Capacity == nil {
				d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
			}
			d.Capacity[resourcev1.QualifiedName(name)] = resourcev1.DeviceCapacity{Value: resource.MustParse(n)}
		}
	}
}

func counters(set, counter, n string) sliceEdit {
	return func(s *resourcev1.ResourceSlice) {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourcev1.CounterSet{Name: set,
			Counters: map[string]resourcev1.Counter{counter: {Value: resource.MustParse(n)}}})
	}
}

func partitionedBy(attribute string) sliceEdit {
	return func(s *resourcev1.ResourceSlice) {
		s.Spec.PartitionTypeAttribute = ptr.To(resourcev1.FullyQualifiedName(attribute))
	}
}

type resultEdit = func(*resourcev1.DeviceRequestAllocationResult)

// newClaim has a device of a pool of the driver.
func newClaim(name, pool, device string, edits ...resultEdit) *resourcev1.ResourceClaim {
	r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: pool, Device: device}
	for _, e := range edits {
		e(&r)
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{r}}}}}
}

func admin(r *resourcev1.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }

func ofOther(r *resourcev1.DeviceRequestAllocationResult) { r.Driver = "other.example.com" }

func consumes(name, n string) resultEdit {
	return func(r *resourcev1.DeviceRequestAllocationResult) {
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{resourcev1.QualifiedName(name): resource.MustParse(n)}
	}
}

// newRule taints what a selector such as "driver=a pool=b device=c" matches.
func newRule(name, selector string, effect resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
	sel := &resourcev1.DeviceTaintSelector{}
	for _, one := range strings.Fields(selector) {
		field, value, _ := strings.Cut(one, "=")
		*map[string]**string{"driver": &sel.Driver, "pool": &sel.Pool, "device": &sel.Device}[field] = &value
	}
	return &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: sel, Taint: resourcev1.DeviceTaint{Key: "x", Effect: effect}}}
}

// cachesWith returns caches with these objects.
func cachesWith(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

func (k *caches) cache(t interface{ Fatal(...any) }, o plan.Object) {
	informer := k.requests.Informer()
	switch o.(type) {
	case *resourcev1.ResourceSlice:
		informer = k.slices.Informer()
	case *resourcev1.ResourceClaim:
		informer = k.claims.Informer()
	case *resourcev1.DeviceTaintRule:
		informer = k.rules.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

// text is an answer in a few words, a line for each pool.
func text(d decision) string {
	if d == nil {
		return ""
	}
	n := func(n *int32) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	lines := []string{fmt.Sprintf("%s pools; %s", n(d.PoolCount), d.Conditions[0].Message)}
	for _, p := range d.Pools {
		line := fmt.Sprintf("%s %d on %s: %s slices, %s devices, %s allocated, %s unavailable, %s available", p.PoolName, p.Generation,
			ptr.Deref(p.NodeName, "-"), n(p.ResourceSliceCount), n(p.TotalDevices), n(p.AllocatedDevices), n(p.UnavailableDevices),
			n(p.AvailableDevices))
		for _, part := range p.PartitionSummary {
			line += fmt.Sprintf("; %s %s: %s of %s", part.Attribute, part.Type, n(part.Allocatable), n(part.Total))
		}
		if s := p.ShareableSummary; s != nil {
			line += fmt.Sprintf("; shared: %s full, %s partial", n(s.FullyAvailableDevices), n(s.PartiallyAvailableDevices))
			for _, c := range s.Capacity {
				line += fmt.Sprintf(", %s %s - %s = %s", c.Name, c.Total, c.Consumed, c.Available)
			}
		}
		if p.ValidationError != nil {
			line += "; " + *p.ValidationError
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
