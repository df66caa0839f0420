package resourcepoolstatusrequest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// mostEntries is how many partition types, and how many capacities, an answer may have of a pool.
const mostEntries = 32

// partitionType is the value of an attribute by which the devices of a pool are grouped.
type partitionType struct{ attribute, value string }

// partitions says how many more devices of each partition type could be allocated, each type by itself, if the pool has
// any (RPS-7). If it cannot be said, the second value says why.
func (p *pool) partitions(byDefault *string) ([]resourcev1alpha3.PartitionTypeStatus, *string) {
	groups := map[partitionType][]device{}
	declared := slices.ContainsFunc(p.slices, func(s *resourcev1.ResourceSlice) bool {
		return s.Spec.PartitionTypeAttribute != nil
	})
	for _, d := range p.devices {
		attribute := ptr.Deref(byDefault, "")
		if declared { // that of its slice: the default is for pools of which no slice names one
			attribute = string(ptr.Deref(d.slice.Spec.PartitionTypeAttribute, ""))
		}
		if attribute == "" || len(d.ConsumesCounters) == 0 {
			continue
		}
		value, ok := d.Attributes[named(d.Attributes, p.driver, attribute)]
		if !ok || value.StringValue == nil {
			return nil, validationError("PartitionTypeMissing", fmt.Sprintf(
				"device %q in pool %s/%s does not carry partition type attribute %q",
				d.Name, p.driver, p.name, attribute))
		}
		of := partitionType{attribute, *value.StringValue}
		if all := groups[of]; len(all) > 0 && !equality.Semantic.DeepEqual(costOf(all[0]), costOf(d)) {
			return nil, validationError("PartitionCostMismatch", fmt.Sprintf(
				"devices of partition type %q in pool %s/%s consume different counters", of.value, p.driver, p.name))
		}
		groups[of] = append(groups[of], d)
	}
	free := p.counters()
	switch {
	case len(groups) > 0 && !p.publishesCounters():
		return nil, validationError("PartitionTypeMissing", fmt.Sprintf(
			"pool %s/%s declares partitionTypeAttribute but publishes no sharedCounters", p.driver, p.name))
	case len(groups) > mostEntries:
		return nil, validationError("PartitionSummaryOverCap", fmt.Sprintf(
			"pool %s/%s has %d partition types, exceeding the maximum of %d",
			p.driver, p.name, len(groups), mostEntries))
	}
	var all []resourcev1alpha3.PartitionTypeStatus
	for of, devices := range groups {
		all = append(all, resourcev1alpha3.PartitionTypeStatus{Attribute: of.attribute, Type: of.value,
			Total: count(len(devices)), Allocatable: count(allocatable(devices, free))})
	}
	slices.SortFunc(all, func(a, b resourcev1alpha3.PartitionTypeStatus) int {
		return cmp.Or(cmp.Compare(a.Attribute, b.Attribute), cmp.Compare(a.Type, b.Type))
	})
	return all, nil
}

// named returns the name under which a device has an attribute or a capacity: drivers may leave out their own domain.
func named[T any](of map[resourcev1.QualifiedName]T, driver, name string) resourcev1.QualifiedName {
	if _, ok := of[resourcev1.QualifiedName(name)]; !ok {
		return resourcev1.QualifiedName(strings.TrimPrefix(name, driver+"/"))
	}
	return resourcev1.QualifiedName(name)
}

// counter is one of a set.
type counter struct{ set, name string }

// costOf is what a device takes of the shared counters.
func costOf(d device) map[counter]resource.Quantity {
	cost := map[counter]resource.Quantity{}
	for _, c := range d.ConsumesCounters {
		for name, n := range c.Counters {
			add(cost, counter{c.CounterSet, name}, n.Value)
		}
	}
	return cost
}

// publishesCounters reports whether devices of the pool share counters.
func (p *pool) publishesCounters() bool {
	return slices.ContainsFunc(p.slices, func(s *resourcev1.ResourceSlice) bool {
		return len(s.Spec.SharedCounters) > 0
	})
}

// counters are what the devices in use leave of the shared counters.
func (p *pool) counters() map[counter]resource.Quantity {
	free := map[counter]resource.Quantity{}
	for _, s := range p.slices {
		for _, set := range s.Spec.SharedCounters {
			for name, n := range set.Counters {
				add(free, counter{set.Name, name}, n.Value)
			}
		}
	}
	for _, d := range p.devices {
		if len(d.uses) > 0 {
			take(free, costOf(d))
		}
	}
	return free
}

// allocatable is how many devices that nobody uses could be allocated with what is left of the counters.
func allocatable(devices []device, left map[counter]resource.Quantity) (n int) {
	left = maps.Clone(left)
	for _, d := range devices {
		if cost := costOf(d); len(d.uses) == 0 && fits(cost, left) {
			take(left, cost)
			n++
		}
	}
	return n
}

// fits reports whether there is as much left as something costs.
func fits(cost, left map[counter]resource.Quantity) bool {
	for of, n := range cost {
		if has := left[of]; has.Cmp(n) < 0 {
			return false
		}
	}
	return true
}

// take takes what something costs from what is left.
func take(left, cost map[counter]resource.Quantity) {
	for of, n := range cost {
		has := left[of].DeepCopy()
		has.Sub(n)
		left[of] = has
	}
}

// add adds to one of several sums.
func add[K comparable](sums map[K]resource.Quantity, of K, n resource.Quantity) {
	sum := sums[of].DeepCopy()
	if sum.IsZero() {
		sum = n.DeepCopy() // in its format
	} else {
		sum.Add(n)
	}
	sums[of] = sum
}

// shareable says how much is left of the devices that several claims may share, if the pool has any (RPS-9). If it
// cannot be said, the second value says why.
func (p *pool) shareable() (*resourcev1alpha3.ShareableSummaryStatus, *string) {
	var devices, full, partial int
	totals, consumed := map[string]resource.Quantity{}, map[string]resource.Quantity{}
	names := map[string]string{} // as devices have them, by their whole names
	for _, d := range p.devices {
		if !ptr.Deref(d.AllowMultipleAllocations, false) {
			continue
		}
		devices++
		own := map[string]resource.Quantity{}
		for _, u := range d.uses {
			for name, n := range u.Consumed {
				add(own, p.whole(name), n)
				add(consumed, p.whole(name), n)
			}
		}
		left := len(d.Capacity) == 0
		for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
			whole, has := p.whole(name), d.Capacity[name].Value
			if _, known := names[whole]; !known {
				names[whole] = string(name)
			}
			add(totals, whole, has)
			left = left || has.Cmp(own[whole]) > 0
		}
		switch {
		case len(d.uses) == 0:
			full++
		case left:
			partial++
		}
	}
	switch {
	case devices == 0:
		return nil, nil
	case len(totals) > mostEntries:
		return nil, validationError("ShareableSummaryOverCap", fmt.Sprintf(
			"pool %s/%s has %d shareable capacity keys, exceeding the maximum of %d", p.driver, p.name, len(totals),
			mostEntries))
	}
	answer := &resourcev1alpha3.ShareableSummaryStatus{FullyAvailableDevices: count(full),
		PartiallyAvailableDevices: count(partial)}
	for whole, name := range names {
		answer.Capacity = append(answer.Capacity, capacityStatus(name, totals[whole], consumed[whole]))
	}
	slices.SortFunc(answer.Capacity, func(a, b resourcev1alpha3.ShareableCapacityStatus) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return answer, nil
}

// whole is the name of a capacity with its domain, which is that of the driver if the name has none.
func (p *pool) whole(name resourcev1.QualifiedName) string {
	if strings.Contains(string(name), "/") {
		return string(name)
	}
	return p.driver + "/" + string(name)
}

// capacityStatus is what an answer says of a capacity.
func capacityStatus(name string, total, consumed resource.Quantity) resourcev1alpha3.ShareableCapacityStatus {
	left := total.DeepCopy()
	if left.Sub(consumed); left.Sign() < 0 {
		left = *resource.NewQuantity(0, total.Format)
	}
	return resourcev1alpha3.ShareableCapacityStatus{Name: name, Total: &total, Consumed: &consumed, Available: &left}
}
