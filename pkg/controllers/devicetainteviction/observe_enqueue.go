package devicetainteviction

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByPod returns a pod with tainted devices when it has come to a node or to claims, or leaves, and one that is
// gone, so that nothing of it is remembered.
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	switch {
	case is == nil:
		if len(podutil.DeviceClaims(was)) == 0 {
			return nil
		}
	case was != nil && sameUse(was, is), !slices.ContainsFunc(k.claimsOf(is), k.tainted):
		return nil
	}
	return informers.Itself(before, after)
}

// sameUse reports whether a pod has its devices as before.
func sameUse(was, is *corev1.Pod) bool {
	return was.UID == is.UID && exempt(was) == exempt(is) && slices.Equal(podutil.DeviceClaims(was),
		podutil.DeviceClaims(is))
}

// enqueuedByClaim returns the pods that have reserved a claim with tainted devices, or had, when its devices or
// reservations have changed.
func (k *caches) enqueuedByClaim(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if was != nil && is != nil && sameDevices(was, is) {
		return nil
	}
	for _, c := range []*resourcev1.ResourceClaim{was, is} {
		if c != nil && k.tainted(c) {
			keys = append(keys, podsOf(c)...)
		}
	}
	return keys
}

// sameDevices reports whether a claim has its devices, reservations and owner as before.
func sameDevices(was, is *resourcev1.ResourceClaim) bool {
	return was.UID == is.UID && equality.Semantic.DeepEqual(was.Status.Allocation, is.Status.Allocation) &&
		slices.Equal(was.Status.ReservedFor, is.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(was), metav1.GetControllerOfNoCopy(is))
}

// enqueuedBySlice returns the pods with devices of a pool when the taints of these may have changed.
func (k *caches) enqueuedBySlice(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*resourcev1.ResourceSlice)
	is, _ := after.(*resourcev1.ResourceSlice)
	if was != nil && is != nil && was.Spec.Pool.Generation == is.Spec.Pool.Generation && sameTaints(was, is) {
		return nil
	}
	in := poolOfSlice(cmp.Or(is, was)).String() // which does not change
	if (was == nil || !hasTaints(was)) && !slices.ContainsFunc(k.slices.By(in), hasTaints) {
		return nil
	}
	for _, c := range k.claims.By(in) {
		keys = append(keys, podsOf(c)...)
	}
	return keys
}

// enqueuedByRule returns the pods with devices that a rule taints, or has tainted, when that has changed.
func (k *caches) enqueuedByRule(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*resourcev1.DeviceTaintRule)
	is, _ := after.(*resourcev1.DeviceTaintRule)
	if sameRule(was, is) {
		return nil
	}
	for _, rule := range []*resourcev1.DeviceTaintRule{was, is} {
		if rule == nil || !evicts(rule) {
			continue
		}
		for c := range k.selected(rule) {
			keys = append(keys, podsOf(c)...)
		}
	}
	return keys
}

// selected ranges over the claims with a device that a rule selects.
func (k *caches) selected(rule *resourcev1.DeviceTaintRule) iter.Seq[*resourcev1.ResourceClaim] {
	all := k.claims.All()
	if by := rule.Spec.DeviceSelector; by == nil {
		all = slices.Values[[]*resourcev1.ResourceClaim](nil)
	} else if by.Driver != nil && by.Pool != nil {
		all = slices.Values(k.claims.By(pool{*by.Driver, *by.Pool}.String()))
	}
	return func(yield func(*resourcev1.ResourceClaim) bool) {
		for c := range all {
			if selectedOf(rule, c) > 0 && !yield(c) {
				return
			}
		}
	}
}

// rulesBySpec returns a rule of which the spec has changed, and one that is gone.
func rulesBySpec(before, after plan.Object) []plan.Key {
	was, _ := before.(*resourcev1.DeviceTaintRule)
	is, _ := after.(*resourcev1.DeviceTaintRule)
	if sameRule(was, is) {
		return nil
	}
	return informers.Itself(before, after)
}

// rulesByStatus returns a rule of which the status has changed.
func rulesByStatus(before, after plan.Object) []plan.Key {
	was, _ := before.(*resourcev1.DeviceTaintRule)
	is, _ := after.(*resourcev1.DeviceTaintRule)
	if !sameRule(was, is) || equality.Semantic.DeepEqual(was.Status, is.Status) {
		return nil
	}
	return informers.Itself(before, after)
}

// rulesByClaim returns the rules that taint a device of a claim, when its devices or reservations have changed.
func (k *caches) rulesByClaim(before, after plan.Object) []plan.Key {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if was != nil && is != nil && sameDevices(was, is) {
		return nil
	}
	return k.rulesOf(was, is)
}

// rulesByPod returns the rules that taint a device of a pod that has come to a node or to claims, or leaves.
func (k *caches) rulesByPod(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && sameUse(was, is) {
		return nil
	}
	for _, p := range []*corev1.Pod{was, is} {
		if p != nil {
			keys = append(keys, k.rulesOf(k.claimsOf(p)...)...)
		}
	}
	return keys
}

// rulesOf returns the rules that taint a device of one of the claims. Some of these may be nil.
func (k *caches) rulesOf(claims ...*resourcev1.ResourceClaim) (keys []plan.Key) {
	for rule := range k.eachRule() {
		if evicts(rule) && slices.ContainsFunc(claims,
			func(c *resourcev1.ResourceClaim) bool { return c != nil && selectedOf(rule, c) > 0 }) {
			keys = append(keys, plan.KeyOf(rule))
		}
	}
	return keys
}

// tainted reports whether a device of a claim has a taint for which pods are evicted, tolerated or not.
func (k *caches) tainted(c *resourcev1.ResourceClaim) bool {
	has := map[deviceName]bool{}
	for _, d := range devicesOf(c) {
		has[nameOf(d)] = true
	}
	for _, in := range poolsOfClaim(c) {
		for _, s := range k.slices.By(in) {
			for d := range evictingTaints(s) {
				if has[deviceName{poolOfSlice(s), d}] {
					return true
				}
			}
		}
	}
	return len(k.rulesOf(c)) > 0
}

// podsOf returns the pods that have reserved a claim.
func podsOf(c *resourcev1.ResourceClaim) (keys []plan.Key) {
	for _, r := range c.Status.ReservedFor {
		if isPod(r) {
			keys = append(keys, plan.Key{Namespace: c.Namespace, Name: r.Name})
		}
	}
	return keys
}

// sameRule reports whether a rule is as before, but for its status.
func sameRule(was, is *resourcev1.DeviceTaintRule) bool {
	return was != nil && is != nil && was.UID == is.UID && equality.Semantic.DeepEqual(was.Spec, is.Spec)
}

// hasTaints reports whether a device of a slice has a taint for which pods are evicted.
func hasTaints(s *resourcev1.ResourceSlice) bool {
	for range evictingTaints(s) {
		return true
	}
	return false
}

// sameTaints reports whether devices have the same taints for which pods are evicted.
func sameTaints(was, is *resourcev1.ResourceSlice) bool {
	return equality.Semantic.DeepEqual(taintsByDevice(was), taintsByDevice(is))
}

// taintsByDevice are the taints in a slice for which pods are evicted; nil if there are none.
func taintsByDevice(s *resourcev1.ResourceSlice) (all map[string][]resourcev1.DeviceTaint) {
	for d, t := range evictingTaints(s) {
		if all == nil {
			all = map[string][]resourcev1.DeviceTaint{}
		}
		all[d] = append(all[d], t)
	}
	return all
}
