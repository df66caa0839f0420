package devicetainteviction

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// device is an allocated device.
type device = resourcev1.DeviceRequestAllocationResult

// pool is where devices are from.
type pool struct{ Driver, Name string }

// deviceName is a device by its pool and name.
type deviceName struct {
	Pool pool
	Name string
}

// publishedTaint is a taint in a slice.
type publishedTaint struct {
	Taint resourcev1.DeviceTaint
	In    *resourcev1.ResourceSlice
}

// taint is a NoExecute taint of a device of a pod that is not tolerated without end.
type taint struct {
	At     time.Time // when the pod is due for it
	Text   string
	Source plan.Ref                    // what is read live to see it
	Rule   *resourcev1.DeviceTaintRule // nil if that is a slice
}

// ruleName is the name of the rule that the taint stands in; empty if it stands in a slice.
func (t taint) ruleName() string {
	if t.Rule == nil {
		return ""
	}
	return t.Rule.Name
}

// ruleUID is the uid of that rule; likewise.
func (t taint) ruleUID() types.UID {
	if t.Rule == nil {
		return ""
	}
	return t.Rule.UID
}

// taints returns the taints of the devices of a pod that are not tolerated without end, those for which it is due first
// before others.
func (s snapshot) taints(now time.Time) (all []taint) {
	published := s.published()
	for _, c := range s.Claims {
		for _, d := range devicesOf(c) {
			add := func(t resourcev1.DeviceTaint, in plan.Object, source plan.Ref, rule *resourcev1.DeviceTaintRule) {
				if at, ok := dueAt(now, c, d, t, in); ok {
					text := taintText(t) + " of the device " + d.Driver + "/" + d.Pool + "/" + d.Device
					all = append(all, taint{at, text, source, rule})
				}
			}
			for _, p := range published[nameOf(d)] {
				add(p.Taint, p.In, slicesRef(d.Driver), nil)
			}
			for _, rule := range s.Rules {
				if evicts(rule) && selects(rule, d) {
					add(rule.Spec.Taint, rule, ruleRef(rule.Name), rule)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b taint) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Source.Name, b.Source.Name))
	})
	return all
}

// published are the taints for which pods are evicted, of the devices of a pod, in the slices of the latest generations
// of their pools (DTE-2).
func (s snapshot) published() map[deviceName][]publishedTaint {
	newest, all := generations(s.Slices), map[deviceName][]publishedTaint{}
	for _, c := range s.Claims {
		for _, d := range devicesOf(c) {
			all[nameOf(d)] = nil
		}
	}
	for _, slice := range s.Slices {
		in := poolOfSlice(slice)
		if slice.Spec.Pool.Generation == newest[in] {
			for d, t := range evictingTaints(slice) {
				one := deviceName{in, d}
				if taints, has := all[one]; has {
					all[one] = append(taints, publishedTaint{t, slice})
				}
			}
		}
	}
	return all
}

// devicesOf returns the devices of a claim.
func devicesOf(c *resourcev1.ResourceClaim) []device {
	if c.Status.Allocation == nil {
		return nil
	}
	return c.Status.Allocation.Devices.Results
}

func nameOf(d device) deviceName { return deviceName{poolOf(d), d.Device} }

func poolOf(d device) pool { return pool{d.Driver, d.Pool} }

func poolOfSlice(s *resourcev1.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }

// generations returns the highest generation of each pool: only the slices that have it count (DTE-2).
func generations(all []*resourcev1.ResourceSlice) map[pool]int64 {
	newest := map[pool]int64{}
	for _, s := range all {
		if g, known := newest[poolOfSlice(s)]; !known || s.Spec.Pool.Generation > g {
			newest[poolOfSlice(s)] = s.Spec.Pool.Generation
		}
	}
	return newest
}

// evictingTaints ranges over the taints in a slice for which pods are evicted, each with the name of its device.
func evictingTaints(s *resourcev1.ResourceSlice) iter.Seq2[string, resourcev1.DeviceTaint] {
	return func(yield func(string, resourcev1.DeviceTaint) bool) {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			for _, t := range d.Taints {
				if t.Effect == resourcev1.DeviceTaintEffectNoExecute && !yield(d.Name, t) {
					return
				}
			}
		}
	}
}

// evicts reports whether pods are evicted for the taint of a rule.
func evicts(r *resourcev1.DeviceTaintRule) bool {
	return r.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute
}

// selects reports whether a rule taints a device: an empty selector selects all, and none selects no device.
func selects(r *resourcev1.DeviceTaintRule, d device) bool {
	by := r.Spec.DeviceSelector
	is := func(wanted *string, has string) bool { return wanted == nil || *wanted == has }
	return by != nil && is(by.Driver, d.Driver) && is(by.Pool, d.Pool) && is(by.Device, d.Device)
}

// selectedOf is how many devices of a claim a rule selects.
func selectedOf(r *resourcev1.DeviceTaintRule, c *resourcev1.ResourceClaim) (n int) {
	for _, d := range devicesOf(c) {
		if selects(r, d) {
			n++
		}
	}
	return n
}

// concerns reports whether a rule taints a device of a claim that does not tolerate it without end.
func concerns(r *resourcev1.DeviceTaintRule, c *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(devicesOf(c),
		func(d device) bool { return selects(r, d) && toleration(d.Tolerations, r.Spec.Taint) != never })
}

// dueAt returns when a pod with a device of a claim is due for a taint that stands in an object; false for never. Time
// is measured from when the taint was added, which may be announced (DTE-3); but nobody is due before it has the
// device.
func dueAt(now time.Time, c *resourcev1.ResourceClaim, d device, t resourcev1.DeviceTaint, in metav1.Object) (time.Time,
	bool) {
	added := in.GetCreationTimestamp().Time
	if t.TimeAdded != nil {
		added = t.TimeAdded.Time
	}
	tolerated := toleration(d.Tolerations, t)
	if tolerated == never {
		return time.Time{}, false
	}
	at := added.Add(tolerated)
	if has := allocatedAt(c); at.Before(has) && has.Before(now) {
		at = has
	}
	return at, true
}

// allocatedAt is when a claim has got its devices.
func allocatedAt(c *resourcev1.ResourceClaim) time.Time {
	if at := c.Status.Allocation.AllocationTimestamp; at != nil {
		return at.Time
	}
	return c.CreationTimestamp.Time
}

// never is the time for which a taint is tolerated that is tolerated without end.
const never = time.Duration(math.MaxInt64)

// toleration is for how long a NoExecute taint is tolerated: without end if one of the tolerations that match it says
// so, else as the shortest of them says; zero if none matches.
func toleration(all []resourcev1.DeviceToleration, t resourcev1.DeviceTaint) time.Duration {
	shortest, matched := never, false
	for _, o := range all {
		if !matches(o, t) {
			continue
		}
		if o.TolerationSeconds == nil || *o.TolerationSeconds > int64(never/time.Second) {
			return never
		}
		shortest, matched = min(shortest, max(0, workloads.Seconds(*o.TolerationSeconds))), true
	}
	if !matched {
		return 0
	}
	return shortest
}

// matches reports whether a toleration matches a NoExecute taint. One without an effect matches all (MEND-32).
func matches(o resourcev1.DeviceToleration, t resourcev1.DeviceTaint) bool {
	if o.Effect != "" && o.Effect != resourcev1.DeviceTaintEffectNoExecute || o.Key != "" && o.Key != t.Key {
		return false
	}
	switch o.Operator {
	case resourcev1.DeviceTolerationOpExists:
		return true
	case resourcev1.DeviceTolerationOpEqual, "":
		return o.Value == t.Value
	}
	return false
}

// taintText is a taint as people write it.
func taintText(t resourcev1.DeviceTaint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// uses reports whether a pod has the devices of a claim: it has reserved it, and the claim of an entry with a template
// is its own (DTE-4).
func uses(p *corev1.Pod, c *resourcev1.ResourceClaim) bool {
	reserved := slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return isPod(r) && r.UID == p.UID
	})
	made := func() bool {
		return slices.Contains(podutil.MadeDeviceClaims(p), c.Name) && metav1.IsControlledBy(c, p)
	}
	return reserved && (made() || slices.Contains(podutil.NamedDeviceClaims(p), c.Name) ||
		podutil.ExtendedDeviceClaim(p) == c.Name)
}

// isPod reports whether a reservation is that of a pod.
func isPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods"
}

// slicesRef names the slices of a driver: those of the pool of a device may be others than the cache shows. One read
// does for all pods that are due together.
func slicesRef(driver string) plan.Ref {
	return plan.Ref{Kind: resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"), All: true, Shared: true,
		Fields: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, driver).String()}
}

// ruleRef names a rule; likewise.
func ruleRef(name string) plan.Ref {
	return plan.Ref{Kind: resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"), Name: name, Shared: true}
}
