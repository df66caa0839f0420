package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func deviceTaintEvictionEntry() Entry {
	return Entry{
		Controller: "device-taint-eviction-controller",
		Operations: map[string]Operation{
			// NAME taint= device= effect= added= generation=: a slice of the pool of devices, of which one, or each, has a taint that was
			// added so many seconds ago; do=delete
			"deviceslice": deviceSlice,
			// NAME select= device= effect= added=: a rule for the devices of the pool, for one of them, for all or for none; do=delete
			"devicerule":     deviceRule,
			"extendeddevice": extendedDevice, // POD tolerate=: it gets a claim for extended resources, as from the scheduler
		},
		Choices:   []workload.Choice{{Weight: 2, Add: taintDevices}},
		Settled:   deviceEvictionsSettled,
		Scenarios: []Scenario{{Name: "pods leave devices that are broken", Play: (*User).breakDevices}},
		Malformed: map[string]string{
			"resourceslices/odd-slice": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":${META},"spec":{"driver":"/","pool":{"name":"","generation":-1,
				"resourceSliceCount":0},"devices":[{"name":""},{"name":"gpu-0","taints":[{"key":"","effect":"NoExecute"},{"key":"a/b/c","effect":"Perhaps"}]}]}}`,
			"devicetaintrules/odd-rule": `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceTaintRule","metadata":${META},"spec":{"deviceSelector":{"driver":"/","pool":""},
				"taint":{"key":"","effect":"NoExecute"}},"status":{"conditions":[{"type":"EvictionInProgress","status":"Perhaps"},{"type":""}]}}`,
		},
		Mutants: deviceTaintEvictionMutants,
		Budgets: []Budget{{
			// and their reservations go
			Name: "10 pods are evicted from their devices", Floor: floor.Writes{Status: 20, Other: 10},
			Prepare: func(u *User) {
				u.Create(u.newNode(703))
				for i := range 10 {
					u.withDevice(fmt.Sprint("dev-", i), u.nodeName(703))
				}
			},
			Do: func(u *User) {
				u.breakPool("budget")
				u.Wait("the pods are evicted", Patience, func() error { return u.remain(u.nodeName(703), 0) })
			},
		}},
	}
}

// breakDevices has pods on a node whose devices get a taint, some of which tolerate it.
func (u *User) breakDevices() {
	u.Helper()
	node := u.newNode(702)
	u.Create(node)
	u.Cleanup(func() { u.removeNode(node.Name) })
	for i := range 3 {
		u.withDevice(fmt.Sprint("soon-", i), node.Name, tolerateDevice(1))
		u.withDevice(fmt.Sprint("never-", i), node.Name, tolerateDevice(-1))
	}
	if !u.breakPool("scenario") {
		u.Log("the server knows no taints of devices")
		return
	}
	u.Wait("the pods are evicted that do not tolerate the taint for long", Patience, func() error { return u.remain(node.Name, 3) })
}

// withDevice makes a pod on a node, with a device.
func (u *User) withDevice(name, node string, tolerations ...resourcev1.DeviceToleration) {
	u.Helper()
	u.Create(newDeviceClaim(name, tolerations...))
	p := newDevicePod(name, "", 0, name, "web:1", true)
	p.Spec.NodeName = node
	u.Create(p)
	u.Try("allocate "+name, func() error { return u.allocate(name, name) })
}

// allocate gives a claim a device and reserves it for a pod, as the scheduler does.
func (u *User) allocate(claim, pod string) error {
	p, err := get[*corev1.Pod](u, pod)
	if err != nil {
		return err
	}
	return edit(u.as("scheduler"), claim,
		func(c *resourcev1.ResourceClaim) { actors.Allocate(c, u.unique(actors.Pool), p) }, "status")
}

// breakPool gives each device of the user's pool a taint. It reports whether the server keeps it, as servers do since 1.36.
func (u *User) breakPool(slice string) (tainted bool) {
	u.Helper()
	name := u.unique(slice)
	u.Cleanup(func() { Remove[*resourcev1.ResourceSlice](u, name) })
	u.Try("taint devices", func() error {
		err := apply(u.as("driver"), u.newDeviceSlice(name), func(s *resourcev1.ResourceSlice) {
			for i := range s.Spec.Devices {
				s.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{deviceTaint("broken", resourcev1.DeviceTaintEffectNoExecute, 0)}
			}
		})
		if err != nil {
			return err
		}
		s, err := get[*resourcev1.ResourceSlice](u, name)
		tainted = err == nil && len(s.Spec.Devices[0].Taints) > 0
		return err
	})
	return tainted
}

// newDeviceSlice is a slice of the user's pool.
func (u *User) newDeviceSlice(name string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: actors.Driver, AllNodes: ptr.To(true),
		Pool: resourcev1.ResourcePool{Name: u.unique(actors.Pool), Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range actors.Devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	u.mark(s)
	return s
}

// deviceTaint is one that was added so many seconds ago.
func deviceTaint(key string, effect resourcev1.DeviceTaintEffect, ago int) resourcev1.DeviceTaint {
	added := metav1.NewTime(time.Now().Add(-time.Duration(ago) * time.Second))
	return resourcev1.DeviceTaint{Key: key, Effect: effect, TimeAdded: &added}
}

// tolerateDevice tolerates all taints of a device for so many seconds; negative: for ever.
func tolerateDevice(seconds int) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = ptr.To(int64(seconds))
	}
	return t
}

// tolerationsOf are those that a line asks for. One without end has no effect either: it matches all.
func tolerationsOf(l script.Line) []resourcev1.DeviceToleration {
	seconds, ok := l.Int("tolerate")
	if !ok {
		return nil
	}
	t := tolerateDevice(seconds)
	if seconds < 0 {
		t.Effect = ""
	}
	return []resourcev1.DeviceToleration{t}
}

// effectOf is the effect that a line names; NoExecute if it names none.
func effectOf(l script.Line) resourcev1.DeviceTaintEffect {
	if effect, ok := l.Get("effect"); ok {
		return resourcev1.DeviceTaintEffect(effect)
	}
	return resourcev1.DeviceTaintEffectNoExecute
}

func deviceSlice(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.ResourceSlice](u.as("driver"), name)
	}
	key, tainted := l.Get("taint")
	only, one := l.Int("device")
	ago, _ := l.Int("added")
	generation, ok := l.Int("generation")
	if !ok {
		generation = 1
	}
	return apply(u.as("driver"), u.newDeviceSlice(name), func(s *resourcev1.ResourceSlice) {
		s.Spec.Pool.Generation = int64(generation)
		for i := range s.Spec.Devices {
			if s.Spec.Devices[i].Taints = nil; tainted && (!one || i == only) {
				s.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{deviceTaint(key, effectOf(l), ago)}
			}
		}
	})
}

func deviceRule(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.DeviceTaintRule](u.as("admin"), name)
	}
	selector := &resourcev1.DeviceTaintSelector{Driver: ptr.To(actors.Driver), Pool: ptr.To(u.unique(actors.Pool))}
	switch selects, _ := l.Get("select"); selects {
	case "all":
		selector = &resourcev1.DeviceTaintSelector{}
	case "none":
		selector = nil
	case "device":
		selector = &resourcev1.DeviceTaintSelector{}
	}
	if only, one := l.Int("device"); one && selector != nil {
		selector.Device = ptr.To(fmt.Sprint("gpu-", only))
	}
	ago, _ := l.Int("added")
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	u.mark(rule)
	return apply(u.as("admin"), rule, func(r *resourcev1.DeviceTaintRule) {
		r.Spec = resourcev1.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: deviceTaint("ruled", effectOf(l), ago)}
	})
}

// extendedDevice gives a pod a claim for extended resources, which the scheduler makes.
func extendedDevice(u *User, l script.Line) error {
	name := l.Arg(0) + "-extended"
	p, err := get[*corev1.Pod](u, l.Arg(0))
	if err != nil {
		return err
	}
	c := newDeviceClaim(name, tolerationsOf(l)...)
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
	if err := create(u.as("scheduler"), c); err != nil {
		return err
	}
	if err := u.allocate(name, p.Name); err != nil {
		return err
	}
	return edit(u.as("scheduler"), p.Name, func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name,
			RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: p.Spec.Containers[0].Name,
				ResourceName: "example.com/gpu", RequestName: "gpu"}}}
	}, "status")
}

// taintDevices is what users and drivers do: pods come with devices, which they share or not, devices break and are repaired, and rules
// come, change and go.
func taintDevices(g *workload.Generator, app string, at, soon time.Duration) {
	for i := range 1 + g.IntN(2) {
		claim := fmt.Sprintf("gpu-%s-%d", app, i)
		g.Add(at, "deviceclaim %s%s", claim, workload.Pick(g, "", " tolerate=-1", " tolerate=0", " tolerate=20", " tolerate=60"))
		for j := range workload.Pick(g, 1, 1, 2, 4) {
			pod := fmt.Sprintf("%s-%d", claim, j)
			g.Add(at+g.Early(), "devicepod %s entries=0 claim=%s image=%s:1%s", pod, claim,
				workload.Pick(g, actors.Good, actors.Good, actors.Done), workload.Pick(g, "", fmt.Sprintf(" node=node-%d", g.IntN(2))))
			switch g.IntN(6) {
			case 0:
				g.Add(soon+g.Early(), "extendeddevice %s%s", pod, workload.Pick(g, "", " tolerate=-1", " tolerate=30"))
			case 1:
				g.Add(soon+g.Early(), "devicepod %s do=delete", pod)
				g.Add(soon+g.While(), "devicepod %s entries=0 claim=%s image=good:1 node=node-0", pod, claim)
			}
		}
	}
	where := workload.Pick(g, "", fmt.Sprintf(" device=%d", g.IntN(actors.Devices)))
	effect := workload.Pick(g, "", "", "", " effect=NoSchedule", " effect=None")
	added := workload.Pick(g, "", "", " added=30", " added=1000")
	if begins := workload.Pick(g, at, soon, soon+g.Early()); g.IntN(2) == 0 {
		slice, generation := "slice-"+app, 1+g.IntN(2)
		g.Add(begins, "deviceslice %s taint=broken generation=%d%s%s%s", slice, generation, where, effect, added)
		if g.IntN(2) == 0 { // the driver is about to publish the pool anew
			g.Add(begins+g.Early(), "deviceslice other-%s generation=%d", app, 1+g.IntN(3))
		}
		g.Add(begins+g.While(), "deviceslice %s %s", slice, workload.Pick(g, "generation=2", "do=delete", "taint=worse generation=2"))
	} else {
		rule := "rule-" + app
		selects := workload.Pick(g, "", "", " select=all", " select=none", " select=device")
		if g.IntN(3) == 0 {
			g.Add(begins-time.Millisecond, "devicerule %s effect=None%s%s", rule, selects, where)
		}
		g.Add(begins, "devicerule %s%s%s%s%s", rule, selects, where, effect, added)
		g.Add(begins+g.While(), "devicerule %s %s", rule, workload.Pick(g, "effect=None", "do=delete", "select=all", "select=none"))
	}
}

// deviceEvictionsSettled says which pods are still there that are due for a taint of a device since 6 s, and which rules do not say so.
func deviceEvictionsSettled(v *View) (wrong []string) {
	pods, pending := devicePods(v), map[string]int{}
	rules := all[*resourcev1.DeviceTaintRule](v)
	for _, p := range pods {
		counted := map[string]bool{}
		for _, t := range deviceTaints(v, p, rules) {
			if counted[t.rule] = true; t.due() && !(t.rule != "" && len(pods) >= leastHeld && t.since() < t.waits+longestHeld) {
				wrong = append(wrong, fmt.Sprintf("%s/%s still has the device %s, with the taint %s, which it tolerates as %v", p.Namespace,
					p.Name, t.device.Device, t.Key, t.device.Tolerations))
			}
		}
		for rule := range counted {
			pending[rule]++
		}
	}
	for _, r := range subjects[*resourcev1.DeviceTaintRule](v) { // DTE-7
		c := meta.FindStatusCondition(r.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
		n := pending[r.Name]
		switch effect := r.Spec.Taint.Effect; {
		case c == nil || c.ObservedGeneration != r.Generation:
			wrong = append(wrong, fmt.Sprintf("the rule %s says nothing about its generation %d: %+v", r.Name, r.Generation, c))
		case effect != resourcev1.DeviceTaintEffectNoExecute:
			if c.Status != metav1.ConditionFalse {
				wrong = append(wrong, fmt.Sprintf("the rule %s, with the effect %s, says %+v", r.Name, effect, c))
			}
		case (c.Status == metav1.ConditionTrue) != (n > 0) || n > 0 && !strings.HasPrefix(c.Message, fmt.Sprint(n, " pod")):
			wrong = append(wrong, fmt.Sprintf("the rule %s, for which %d pods are to go, says %+v", r.Name, n, c))
		}
	}
	return wrong
}

// From so many pods with devices on they may be held for so long, from when they are due, if a rule concerns most of them.
const (
	leastHeld   = 5
	longestHeld = 6 * time.Minute
)

// devicePods returns the pods with devices, which may be evicted.
func devicePods(v *View) (pods []*corev1.Pod) {
	for _, p := range subjects[*corev1.Pod](v) {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !ended(p) && len(deviceClaimsOf(v, p)) > 0 {
			pods = append(pods, p)
		}
	}
	return pods
}

// deviceClaimsOf returns the claims whose devices a pod has.
func deviceClaimsOf(v *View, p *corev1.Pod) (claims []*resourcev1.ResourceClaim) {
	for _, c := range all[*resourcev1.ResourceClaim](v) {
		reserved := slices.ContainsFunc(c.Status.ReservedFor,
			func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
		named := slices.ContainsFunc(p.Spec.ResourceClaims,
			func(e corev1.PodResourceClaim) bool { return ptr.Deref(e.ResourceClaimName, "") == c.Name })
		recorded := metav1.IsControlledBy(c, p) && slices.ContainsFunc(p.Status.ResourceClaimStatuses,
			func(s corev1.PodResourceClaimStatus) bool { return ptr.Deref(s.ResourceClaimName, "") == c.Name })
		e := p.Status.ExtendedResourceClaimStatus
		if c.Namespace == p.Namespace && reserved && c.Status.Allocation != nil &&
			(named || recorded || e != nil && e.ResourceClaimName == c.Name) {
			claims = append(claims, c)
		}
	}
	return claims
}

// taintedDevice is a taint of a device of a pod which that does not tolerate for ever.
type taintedDevice struct {
	resourcev1.DeviceTaint
	device resourcev1.DeviceRequestAllocationResult
	rule   string // empty if it stands in a slice
	waits  time.Duration
}

func (t taintedDevice) since() time.Duration { return time.Since(t.TimeAdded.Time) }

// due reports whether the pod should be gone for 6 s.
func (t taintedDevice) due() bool { return t.since() > t.waits+6*time.Second }

// deviceTaints returns the taints of the devices of a pod.
func deviceTaints(v *View, p *corev1.Pod, rules []*resourcev1.DeviceTaintRule) (taints []taintedDevice) {
	for _, c := range deviceClaimsOf(v, p) {
		for _, d := range c.Status.Allocation.Devices.Results {
			add := func(t resourcev1.DeviceTaint, rule string) {
				if waits := toleratesDevice(d, t); waits >= 0 && t.Effect == resourcev1.DeviceTaintEffectNoExecute && t.TimeAdded != nil {
					taints = append(taints, taintedDevice{t, d, rule, waits})
				}
			}
			for _, t := range taintsInSlices(v, d) {
				add(t, "")
			}
			for _, r := range rules {
				s := r.Spec.DeviceSelector
				if s != nil && ptr.Deref(s.Driver, d.Driver) == d.Driver && ptr.Deref(s.Pool, d.Pool) == d.Pool &&
					ptr.Deref(s.Device, d.Device) == d.Device {
					add(r.Spec.Taint, r.Name)
				}
			}
		}
	}
	return taints
}

// taintsInSlices returns the taints of a device in the slices of the latest generation of its pool.
func taintsInSlices(v *View, d resourcev1.DeviceRequestAllocationResult) (taints []resourcev1.DeviceTaint) {
	var latest int64
	for _, s := range all[*resourcev1.ResourceSlice](v) {
		if s.Spec.Driver != d.Driver || s.Spec.Pool.Name != d.Pool || s.Spec.Pool.Generation < latest {
			continue
		}
		if s.Spec.Pool.Generation > latest {
			latest, taints = s.Spec.Pool.Generation, nil
		}
		for _, one := range s.Spec.Devices {
			if one.Name == d.Device {
				taints = append(taints, one.Taints...)
			}
		}
	}
	return taints
}

// toleratesDevice returns for how long a taint of a device is tolerated; negative: for ever.
func toleratesDevice(d resourcev1.DeviceRequestAllocationResult, t resourcev1.DeviceTaint) time.Duration {
	shortest, tolerated := int64(0), false
	for _, o := range d.Tolerations {
		if (o.Effect != "" && o.Effect != t.Effect) || (o.Key != "" && o.Key != t.Key) ||
			(o.Operator != resourcev1.DeviceTolerationOpExists && o.Value != t.Value) {
			continue
		}
		if o.TolerationSeconds == nil {
			return -1
		}
		if seconds := max(0, *o.TolerationSeconds); !tolerated || seconds < shortest {
			shortest, tolerated = seconds, true
		}
	}
	return time.Duration(shortest) * time.Second
}

const deviceTaintFolder = "pkg/controllers/devicetainteviction/"

var deviceTaintEvictionMutants = []Mutant{
	{
		Name: "tolerations of devices without an effect do not count",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", `o.Effect != "" && o.Effect != resourcev1.DeviceTaintEffectNoExecute ||`,
			`o.Effect != resourcev1.DeviceTaintEffectNoExecute ||`}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=-1
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  deviceslice s taint=broken`,
		Oracle: "S40",
	},
	{
		Name: "taints of devices count that an older generation of the pool has",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "slice.Spec.Pool.Generation == newest[in]",
			"slice.Spec.Pool.Generation <= newest[in]"}},
		Script: withoutElection + `
			at 5s   deviceclaim one
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 20s  deviceslice other generation=2
			at 40s  deviceslice s taint=broken generation=1`,
		Oracle: "S40",
	},
	{
		Name:  "what taints a device is not read live",
		Edits: []Edit{{deviceTaintFolder + "plan.go", "p.Proof = append(p.Proof, t.Source)", "p.Proof = p.Proof[:1]"}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=60
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 20s  deviceslice s taint=broken
			at 30s  fault m0 freeze resourceslices for=90s
			at 40s  deviceslice s`,
		Oracle: "S40",
	},
	{
		Name:  "a pod goes for the device of an earlier one of its name",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "return isPod(r) && r.UID == p.UID", "return isPod(r) && r.Name == p.Name"}},
		Script: withoutElection + `
			set only device-taint-eviction-controller
			at 5s   deviceclaim one
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  devicepod web do=delete
			at 80s  devicepod web entries=0 claim=one image=good:1 node=node-0
			at 100s deviceslice s taint=broken`,
		Oracle: "S40",
	},
	{
		Name: "devices of extended resources are not looked at",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "podutil.ExtendedDeviceClaim(p) == c.Name)",
			"podutil.ExtendedDeviceClaim(p) == \"\" && c.Name == \"\")"}},
		Script: withoutElection + `
			at 5s   devicepod web entries=0 image=good:1
			at 20s  extendeddevice web
			at 40s  deviceslice s taint=broken`,
		Oracle: SettledOracle,
	},
	{
		Name: "an eviction from a device that fails is given up",
		Edits: []Edit{{deviceTaintFolder + "plan.go", "default:\n\t\ts.evict(now, free, &d, &p)\n\t}",
			"default:\n\t\tif d.LastEvent = evicting; s.Memory.LastEvent != evicting {\n\t\t\ts.evict(now, free, &d, &p)\n\t\t}\n\t}"}},
		Script: withoutElection + `
			set heal 0
			at 5s   deviceclaim one
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 29s  fault m0 refuse code=500 resource=pods/status for=5s
			at 30s  deviceslice s taint=broken`,
		Oracle: SettledOracle,
	},
	{
		Name: "pods that come to a tainted device stay",
		Edits: []Edit{{deviceTaintFolder + "observe_enqueue.go", "if c != nil && k.tainted(c) {\n\t\t\tkeys = append(keys, podsOf(c)...)",
			"if c != nil && k.tainted(c) {\n\t\t\tkeys = append(keys, podsOf(c)[:0]...)"},
			{deviceTaintFolder + "observe_enqueue.go", "case was != nil && sameUse(was, is), !slices.ContainsFunc(k.claimsOf(is), k.tainted):",
				"case was != nil, !slices.ContainsFunc(k.claimsOf(is), k.tainted):"}},
		Script: withoutElection + `
			at 5s   deviceslice s taint=broken
			at 10s  deviceclaim one
			at 11s  devicepod web entries=0 claim=one image=good:1`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a rule without a selector taints all devices",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "return by != nil && is(by.Driver", "return by == nil || is(by.Driver"}},
		Script: withoutElection + `
			at 5s   deviceclaim one
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  devicerule r select=none
			at 31s  deviceslice s
			at 50s  devicepod web do=delete
			at 60s  devicepod web entries=0 claim=one image=good:1`,
		Oracle: "S40",
	},
	{
		Name: "rules count pods that tolerate their taint",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "selects(r, d) && toleration(d.Tolerations, r.Spec.Taint) != never",
			"selects(r, d) || toleration(d.Tolerations, r.Spec.Taint) < 0"}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=-1
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  devicerule r`,
		Oracle: SettledOracle,
	},
	{
		Name: "rules do not learn that their pods are gone",
		Edits: []Edit{{deviceTaintFolder + "controller.go", "k.pods.Watch(k.rulesByPod, paced)", "k.pods.Watch(informers.None, paced)"},
			{deviceTaintFolder + "observe_enqueue.go", "return k.rulesOf(was, is)", "return k.rulesOf(was, is)[:0]"}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=30
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  devicerule r`,
		Oracle: SettledOracle,
	},
	{
		Name:  "the effect of a rule is not read live",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "if evicts(rule) && selects(rule, d) {", "if selects(rule, d) {"}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=60
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 20s  devicerule r
			at 30s  fault m0 freeze devicetaintrules for=90s
			at 40s  devicerule r effect=None`,
		Oracle: "S40",
	},
	{
		Name: "it is forgotten since when pods are held for a rule",
		Edits: []Edit{{deviceTaintFolder + "plan.go", "since, known := s.Memory.Held[uid]",
			"since, known := s.Memory.Held[uid+\" \"]"}},
		Script: withoutElection + `
			at 5s   deviceclaim one
			at 6s   devicepod web-0 entries=0 claim=one image=good:1
			at 6s   devicepod web-1 entries=0 claim=one image=good:1
			at 6s   devicepod web-2 entries=0 claim=one image=good:1
			at 6s   devicepod web-3 entries=0 claim=one image=good:1
			at 6s   devicepod web-4 entries=0 claim=one image=good:1
			at 30s  devicerule r
			at 420s deviceslice s`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a pod goes as soon as a taint of its device is there, however long it tolerates it",
		Edits: []Edit{{deviceTaintFolder + "plan_taints.go", "at := added.Add(tolerated)", "at := added.Add(tolerated / 100)"}},
		Script: withoutElection + `
			at 5s   deviceclaim one tolerate=60
			at 6s   devicepod web entries=0 claim=one image=good:1
			at 30s  deviceslice s taint=broken`,
		Oracle: "S40",
	},
}
