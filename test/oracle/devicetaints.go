package oracle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// deviceEvictionAccount is the service account of device taint eviction, and the end of its user agent (REG-43).
const deviceEvictionAccount = "device-taint-eviction-controller"

// NoEvictionFromGoodDevices is S40: device taint eviction marks a pod and deletes it only when it is due by a NoExecute taint of one of its
// devices, or was within the lag of a manager: the pod has reserved, under its uid, a claim that it names or that was made for it and that
// has the device (DTE-4, DTE-20); the taint stands in a slice of the latest generation of the pool, or in a rule that selects the device
// (DTE-2); and no toleration of the claim matches it, or each that does was for a time, of which the shortest is over since the taint was
// added (DTE-3, MEND-32), which may be announced. A tolerance of a second is for times that have no fractions. A pod that it deletes has
// been marked (DTE-5).
func NoEvictionFromGoodDevices() Oracle {
	return Oracle{"S40", "no pod is evicted from a device without a taint that is due", func(j *judge) hooks {
		t := &deviceTimes{judge: j, marked: map[string]bool{}, states: []devicesAt{{from: epoch}}}
		return hooks{before: t.before, after: t.after}
	}}
}

// longPast is what excuses no manager any more.
const longPast = time.Hour

// deviceTimes is what S40 remembers.
type deviceTimes struct {
	*judge
	marked map[string]bool // pods by their uids
	states []devicesAt     // what claims, slices and rules were, the oldest first: all that may excuse a manager
}

// devicesAt are the claims, slices and rules that there are from a time on, by their keys.
type devicesAt struct {
	from   time.Time
	claims map[string]*resourcev1.ResourceClaim
	slices map[string]*resourcev1.ResourceSlice
	rules  map[string]*resourcev1.DeviceTaintRule
}

func (t *deviceTimes) before(r *revision) {
	p, ok := r.Object.(*corev1.Pod)
	if !ok || r.old == nil || !r.manager {
		return
	}
	deletes := r.deletes() && r.by != nil && isOf(r.by.Request, deviceEvictionAccount)
	switch {
	case r.Type == Modified && markedForDevice(r.Object) && !markedForDevice(r.old):
		t.evicts(r, p, "marked")
	case deletes && !t.marked[string(r.uid)]:
		t.judges(false)
		t.report(r, nil, "the pod is deleted for the taints of its devices, and was not marked before")
	case deletes:
		t.evicts(r, r.old.(*corev1.Pod), "deleted")
	}
}

// markedForDevice reports whether a pod has the condition by which the controller says that it evicts it.
func markedForDevice(o Object) bool {
	p, ok := o.(*corev1.Pod)
	return ok && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByDeviceTaintManager"
	})
}

// evicts judges one of the steps by which a pod is evicted.
func (t *deviceTimes) evicts(r *revision, p *corev1.Pod, step string) {
	since := t.outages.of(r.author, "none").before(t.now, t.o.Lag) // a watch that is late excuses nothing: all is read live
	for i := len(t.states) - 1; i >= 0; i-- {
		now := i == len(t.states)-1
		if !now && t.states[i+1].from.Before(since) {
			break
		}
		if t.states[i].due(p, t.now) {
			t.judges(!now)
			return
		}
	}
	t.judges(false)
	t.report(r, nil, "the pod is %s, and no taint of its devices is due", step)
}

// after notes what there is, and forgets what excuses nobody any more.
func (t *deviceTimes) after(r *revision) {
	gone, next := r.Type == Deleted, t.states[len(t.states)-1]
	next.from = t.now
	switch o := r.Object.(type) {
	case *corev1.Pod:
		if t.marked[string(o.UID)] = !gone && (t.marked[string(o.UID)] || markedForDevice(o)); gone {
			delete(t.marked, string(o.UID))
		}
		return
	case *resourcev1.ResourceClaim:
		next.claims = changed(next.claims, r.key, o, gone)
	case *resourcev1.ResourceSlice:
		next.slices = changed(next.slices, r.key, o, gone)
	case *resourcev1.DeviceTaintRule:
		next.rules = changed(next.rules, r.key, o, gone)
	default:
		return
	}
	t.states = append(t.states, next)
	old := 0
	for old+1 < len(t.states) && t.states[old+1].from.Before(t.now.Add(-longPast)) {
		old++
	}
	t.states = t.states[old:]
}

// changed is a copy of a map with another value, or without it.
func changed[T any](m map[string]T, key string, o T, gone bool) map[string]T {
	if m = maps.Clone(m); m == nil {
		m = map[string]T{}
	}
	put(m, key, o, gone)
	return m
}

// due reports whether a pod is due by a taint of one of its devices.
func (s devicesAt) due(p *corev1.Pod, now time.Time) bool {
	for _, c := range s.claims {
		if c.Status.Allocation == nil || !hasDevicesOf(p, c) {
			continue
		}
		for _, d := range c.Status.Allocation.Devices.Results {
			for _, t := range s.taints(d) {
				seconds := toleratedOnDevice(d, t)
				if seconds == 0 && t.TimeAdded == nil || seconds >= 0 && t.TimeAdded != nil &&
					!t.TimeAdded.Add(time.Duration(seconds)*time.Second).After(now.Add(time.Second)) {
					return true
				}
			}
		}
	}
	return false
}

// hasDevicesOf reports whether a pod has the devices of a claim.
func hasDevicesOf(p *corev1.Pod, c *resourcev1.ResourceClaim) bool {
	if _, reserved := podsOf(c)[p.UID]; !reserved || c.Namespace != p.Namespace {
		return false
	}
	if e := p.Status.ExtendedResourceClaimStatus; e != nil && e.ResourceClaimName == c.Name {
		return true
	}
	ref, _ := controller(c)
	for _, e := range p.Spec.ResourceClaims {
		if e.ResourceClaimName != nil && *e.ResourceClaimName == c.Name {
			return true
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if e.ResourceClaimTemplateName != nil && s.Name == e.Name && s.ResourceClaimName != nil && *s.ResourceClaimName == c.Name &&
				ref.UID == p.UID {
				return true
			}
		}
	}
	return false
}

// taints returns the NoExecute taints of a device.
func (s devicesAt) taints(d resourcev1.DeviceRequestAllocationResult) (all []resourcev1.DeviceTaint) {
	latest := int64(-1)
	of := func(slice *resourcev1.ResourceSlice) bool {
		return slice.Spec.Driver == d.Driver && slice.Spec.Pool.Name == d.Pool
	}
	for _, slice := range s.slices {
		if of(slice) {
			latest = max(latest, slice.Spec.Pool.Generation)
		}
	}
	for _, slice := range s.slices {
		for _, one := range slice.Spec.Devices {
			if of(slice) && slice.Spec.Pool.Generation == latest && one.Name == d.Device {
				all = append(all, one.Taints...)
			}
		}
	}
	for _, rule := range s.rules {
		by := rule.Spec.DeviceSelector
		if by != nil && (by.Driver == nil || *by.Driver == d.Driver) && (by.Pool == nil || *by.Pool == d.Pool) &&
			(by.Device == nil || *by.Device == d.Device) {
			all = append(all, rule.Spec.Taint)
		}
	}
	return slices.DeleteFunc(all, func(t resourcev1.DeviceTaint) bool { return t.Effect != resourcev1.DeviceTaintEffectNoExecute })
}

// toleratedOnDevice returns for how many seconds a taint of a device is tolerated: 0 if it is not, negative: for ever.
func toleratedOnDevice(d resourcev1.DeviceRequestAllocationResult, t resourcev1.DeviceTaint) int64 {
	shortest, matched := int64(0), false
	for _, o := range d.Tolerations {
		if (o.Effect != "" && o.Effect != t.Effect) || (o.Key != "" && o.Key != t.Key) ||
			(o.Operator != resourcev1.DeviceTolerationOpExists && o.Value != t.Value) {
			continue
		}
		if o.TolerationSeconds == nil {
			return -1
		}
		if seconds := max(0, *o.TolerationSeconds); !matched || seconds < shortest {
			shortest, matched = seconds, true
		}
	}
	return shortest
}
