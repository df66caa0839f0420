package resourcepoolstatusrequest

import (
	"cmp"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// pool is what the slices of one say.
type pool struct {
	driver, name string
	generation   int64
	want         int64                       // slices of the generation, as one of them says that there are
	slices       []*resourcev1.ResourceSlice // of the latest generation
	devices      []device                    // of these
}

// device is one of a pool.
type device struct {
	*resourcev1.Device
	slice *resourcev1.ResourceSlice
	uses  []use
}

// poolsOf returns the pools of slices, by name, of which only those of the latest generation count (RPS-3).
func poolsOf(found []*resourcev1.ResourceSlice) (pools []*pool) {
	byName := map[string]*pool{}
	for _, s := range found {
		of := s.Spec.Pool
		p := byName[of.Name]
		if p == nil || p.generation < of.Generation {
			p = &pool{driver: s.Spec.Driver, name: of.Name, generation: of.Generation}
			byName[of.Name] = p
		}
		if p.generation != of.Generation {
			continue
		}
		p.slices, p.want = append(p.slices, s), max(p.want, of.ResourceSliceCount)
		for i := range s.Spec.Devices {
			p.devices = append(p.devices, device{Device: &s.Spec.Devices[i], slice: s})
		}
	}
	for _, p := range byName {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	return pools
}

// incomplete says that slices of a pool are missing; empty if none is.
func (p *pool) incomplete() string {
	if int64(len(p.slices)) >= p.want {
		return ""
	}
	return fmt.Sprintf("pool %s/%s is incomplete: observed %d/%d slices at generation %d", p.driver, p.name,
		len(p.slices), p.want, p.generation)
}

// status is what an answer says of a pool. Each device counts once: it is allocated, unavailable or available (RPS-5).
func (p *pool) status(s snapshot) resourcev1alpha3.PoolStatus {
	answer := resourcev1alpha3.PoolStatus{
		Driver: p.driver, PoolName: p.name, Generation: p.generation, NodeName: p.node(),
	}
	if why := p.incomplete(); why != "" {
		answer.ValidationError = validationError("PoolIncomplete", why)
		return answer
	}
	p.use(s.Uses[p.name])
	rules := p.rulesFor(s.Rules)
	var allocated, unavailable int
	for _, d := range p.devices {
		switch {
		case len(d.uses) > 0:
			allocated++
		case unusable(d, rules):
			unavailable++
		}
	}
	answer.ResourceSliceCount, answer.TotalDevices = count(len(p.slices)), count(len(p.devices))
	answer.AllocatedDevices, answer.UnavailableDevices = count(allocated), count(unavailable)
	answer.AvailableDevices = count(len(p.devices) - allocated - unavailable)
	var wrong [2]*string
	answer.PartitionSummary, wrong[0] = p.partitions(s.Request.Spec.DefaultPartitionTypeAttribute)
	answer.ShareableSummary, wrong[1] = p.shareable()
	answer.ValidationError = cmp.Or(wrong[:]...)
	return answer
}

// count is a number as answers have it.
func count(n int) *int32 { return ptr.To(int32(n)) }

// validationError is what an answer says of a pool that is not as it should be, in at most 256 bytes.
func validationError(reason, message string) *string {
	text := reason + ": " + message
	return ptr.To(text[:min(len(text), 256)])
}

// node is the node of all slices; nil if they have none, or several.
func (p *pool) node() *string {
	node := p.slices[0].Spec.NodeName
	for _, s := range p.slices {
		if node == nil || s.Spec.NodeName == nil || *s.Spec.NodeName != *node {
			return nil
		}
	}
	return ptr.To(*node)
}

// use notes who uses the devices. What a claim has of a device that is gone does not count.
func (p *pool) use(uses []use) {
	at := map[string]int{}
	for i, d := range p.devices {
		at[d.Name] = i
	}
	for _, u := range uses {
		if i, ok := at[u.Device]; ok {
			p.devices[i].uses = append(p.devices[i].uses, u)
		}
	}
}

// ruled are the devices of a pool that rules keep pods away from.
type ruled struct {
	all   bool
	names sets.Set[string]
}

// rulesFor returns what rules say of a pool.
func (p *pool) rulesFor(rules []*resourcev1.DeviceTaintRule) ruled {
	found := ruled{names: sets.New[string]()}
	for _, r := range rules {
		sel := r.Spec.DeviceSelector
		if !keepsAway(r.Spec.Taint.Effect) || !matches(sel.Pool, p.name) {
			continue
		}
		if sel.Device == nil {
			found.all = true
		} else {
			found.names.Insert(*sel.Device)
		}
	}
	return found
}

// unusable reports whether a device has a taint that keeps pods away, from its driver or by a rule (RPS-6).
func unusable(d device, by ruled) bool {
	return by.all || by.names.Has(d.Name) ||
		slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return keepsAway(t.Effect) })
}

func keepsAway(effect resourcev1.DeviceTaintEffect) bool {
	return effect == resourcev1.DeviceTaintEffectNoSchedule || effect == resourcev1.DeviceTaintEffectNoExecute
}
