package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// markForDevice is the condition that comes before an eviction from a device.
func markForDevice(o Object) {
	p := o.(*corev1.Pod)
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager"})
}

// device is a pod with the device d of the pool p.
type device struct {
	*scene
	pod, claim Object
}

// aDevice is one whose claim has tolerations.
func aDevice(s *scene, tolerations ...resourcev1.DeviceToleration) device {
	name := "c"
	d := device{scene: s}
	d.pod = s.User().Create(&corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{NodeName: "n",
		ResourceClaims: []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: &name}}}})
	d.claim = s.User().Edit(s.User().Create(&resourcev1.ResourceClaim{ObjectMeta: named(name)}), func(o Object) {
		c := o.(*resourcev1.ResourceClaim)
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "x", Pool: "p", Device: "d", Tolerations: tolerations}}}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: d.pod.GetUID()}}
	})
	return d
}

// forSeconds tolerates the taint k for so many seconds; negative: for ever.
func forSeconds(seconds int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: "k", Operator: resourcev1.DeviceTolerationOpExists}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}

// taint is k, which is added now.
func (d device) taint(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: "k", Effect: effect, TimeAdded: &metav1.Time{Time: d.Now}}
}

// slice is one of the pool.
func (d device) slice(name string, generation int64, taints ...resourcev1.DeviceTaint) Object {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.Pool = "x", resourcev1.ResourcePool{Name: "p", Generation: generation}
	s.Spec.Devices = []resourcev1.Device{{Name: "d", Taints: taints}}
	return d.User().Create(s)
}

func (d device) broken() Object {
	return d.slice("s", 1, d.taint(resourcev1.DeviceTaintEffectNoExecute))
}

func (d device) rule(selector *resourcev1.DeviceTaintSelector) {
	d.User().Create(&resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: selector, Taint: d.taint(resourcev1.DeviceTaintEffectNoExecute)}})
}

// mark marks the pod, and evict deletes it then, as device taint eviction does.
func (d device) mark() Object {
	return d.Manager().Account(deviceEvictionAccount).Edit(d.pod, markForDevice)
}

func (d device) evict() { d.Manager().Account(deviceEvictionAccount).Delete(d.mark()) }

func TestNoEvictionFromGoodDevices(t *testing.T) { // S40
	const broken = "no taint of its devices is due"
	driver, other := "x", "y"
	run(t, NoEvictionFromGoodDevices(), []history{
		{name: "DTE-2 a taint in a slice", write: func(s *scene) {
			d := aDevice(s)
			d.broken()
			d.evict()
		}},
		{name: "DTE-2 a taint in a rule", write: func(s *scene) {
			d := aDevice(s)
			d.rule(&resourcev1.DeviceTaintSelector{Driver: &driver})
			d.evict()
		}},
		{name: "DTE-2 a rule for others", write: func(s *scene) {
			d := aDevice(s)
			d.rule(&resourcev1.DeviceTaintSelector{Driver: &other})
			d.mark()
		}, want: broken},
		{name: "DTE-2 a rule for none", write: func(s *scene) {
			d := aDevice(s)
			d.rule(nil)
			d.mark()
		}, want: broken},
		{name: "DTE-2 another effect", write: func(s *scene) {
			d := aDevice(s)
			d.slice("s", 1, d.taint(resourcev1.DeviceTaintEffectNoSchedule))
			d.mark()
		}, want: broken},
		{name: "DTE-2 an older generation", write: func(s *scene) {
			d := aDevice(s)
			d.slice("new", 2)
			d.broken()
			d.mark()
		}, want: broken},
		{name: "MEND-32 it tolerates it", write: func(s *scene) {
			d := aDevice(s, forSeconds(-1))
			d.broken()
			d.mark()
		}, want: broken},
		{name: "DTE-3 it tolerates it for ever beside a time", write: func(s *scene) {
			d := aDevice(s, forSeconds(0), forSeconds(-1))
			d.broken()
			d.mark()
		}, want: broken},
		{name: "DTE-3 it tolerates it for longer", write: func(s *scene) {
			d := aDevice(s, forSeconds(60))
			d.broken()
			s.Wait(50 * time.Second)
			d.mark()
		}, want: broken},
		{name: "DTE-3 the time is over", write: func(s *scene) {
			d := aDevice(s, forSeconds(90), forSeconds(60))
			d.broken()
			s.Wait(time.Minute)
			d.evict()
		}},
		{name: "DTE-6 the taint has just gone", write: func(s *scene) {
			d := aDevice(s)
			s.User().Delete(d.broken())
			d.evict()
		}},
		{name: "DTE-6 it is gone since long", write: func(s *scene) {
			d := aDevice(s)
			s.User().Delete(d.broken())
			s.Wait(time.Minute)
			d.mark()
		}, want: broken},
		{name: "DTE-4 another pod has reserved it", write: func(s *scene) {
			d := aDevice(s)
			s.User().Edit(d.claim, func(o Object) { o.(*resourcev1.ResourceClaim).Status.ReservedFor[0].UID = "x" })
			s.Wait(time.Minute)
			d.broken()
			d.mark()
		}, want: broken},
		{name: "DTE-20 extended resources", write: func(s *scene) {
			d := aDevice(s)
			d.pod = s.User().Edit(d.pod, func(o Object) {
				p := o.(*corev1.Pod)
				p.Spec.ResourceClaims = nil
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
			})
			d.broken()
			d.evict()
		}},
		{name: "DTE-4 a claim that it does not name", write: func(s *scene) {
			d := aDevice(s)
			d.pod = s.User().Edit(d.pod, func(o Object) { o.(*corev1.Pod).Spec.ResourceClaims = nil })
			d.broken()
			d.mark()
		}, want: broken},
		{name: "DTE-5 it was marked when the taint was there", write: func(s *scene) {
			d := aDevice(s)
			slice := d.broken()
			pod := d.mark()
			s.User().Delete(slice)
			s.Wait(time.Minute)
			s.Manager().Account(deviceEvictionAccount).Delete(pod)
		}, want: broken},
		{name: "DTE-5 it was not marked", write: func(s *scene) {
			d := aDevice(s)
			d.broken()
			s.Manager().Account(deviceEvictionAccount).Delete(d.pod)
		}, want: "was not marked"},
		{name: "another controller deletes it", write: func(s *scene) {
			d := aDevice(s)
			s.Manager().Account("job-controller").Delete(d.pod)
		}},
	})
}
