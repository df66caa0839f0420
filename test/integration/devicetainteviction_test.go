package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const deviceTaintEviction = "device-taint-eviction-controller"

// publish has the driver publish the devices good and bad of a pool that has the name of the namespace, the second one with taints.
func (b *bench) publish(taints ...resourcev1.DeviceTaint) {
	b.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: b.ns}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", AllNodes: ptr.To(true), Pool: resourcev1.ResourcePool{Name: b.ns, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "good"}, {Name: "bad", Taints: taints}},
	}}
	if _, err := b.Client.ResourceV1().ResourceSlices().Create(b.Context(), slice, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = b.Client.ResourceV1().ResourceSlices().Delete(context.Background(), b.ns, metav1.DeleteOptions{})
	})
}

// withDevice makes a pod on a node, with a device of the pool that the driver publishes.
func (b *bench) withDevice(name, node, device string, tolerations ...resourcev1.DeviceToleration) *corev1.Pod {
	b.Helper()
	b.deviceClaim(name)
	p := b.withDevices(name, node, ":"+name)
	b.reserveDevice(name, resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.example.com", Pool: b.ns, Device: device,
		Tolerations: tolerations}, p)
	return p
}

// holdPods gives pods a finalizer, so that they stay to be looked at when their nodes have ended them.
func (b *bench) holdPods(names ...string) {
	b.Helper()
	for _, name := range names {
		b.patchMeta("pod", name, hold)
	}
}

// leavesItsDevice waits until a pod that is held is marked and deleted, and lets it go.
func (b *bench) leavesItsDevice(name string) {
	b.Helper()
	b.said(name, "DeviceTaintManagerEviction", "Marking for deletion", 1)
	b.wait(name+" is marked and deleted", func() error {
		p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		marked := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByDeviceTaintManager" &&
				c.Message == "Device Taint manager: deleting due to NoExecute taint"
		})
		if p.DeletionTimestamp == nil || !marked {
			return fmt.Errorf("deleted at %v: %+v", p.DeletionTimestamp, p.Status.Conditions)
		}
		return nil
	})
}

// keepsItsDevice fails if a pod is being deleted.
func (b *bench) keepsItsDevice(name string) {
	b.Helper()
	if p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp != nil {
		b.Errorf("%s goes: %v", name, err)
	}
}

// ruleSays waits until the status of the rule of the namespace says something about its spec.
func (b *bench) ruleSays(status metav1.ConditionStatus, reason, message string) {
	b.Helper()
	b.wait("the rule says "+reason, func() error {
		r, err := b.Client.ResourceV1().DeviceTaintRules().Get(b.Context(), b.ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) ||
			c.ObservedGeneration != r.Generation {
			return fmt.Errorf("it says %+v", c)
		}
		if of := r.ManagedFields; !slices.ContainsFunc(of, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == deviceTaintEviction && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
		}) {
			return fmt.Errorf("its fields are those of %+v", of)
		}
		return nil
	})
}

// workOfDeviceTaints has pods leave a device with a taint that the driver has set, and one with a taint by a rule, after that was tried
// without effect. It needs a server that has taints of devices, as servers do since 1.36, and rules since 1.37.
func (b *bench) workOfDeviceTaints() {
	b.Helper()
	if b.Before(b.T, 36) {
		return
	}
	node := b.attachingNode("tainted-devices")
	b.withDevice("breaks", node, "bad")
	b.withDevice("bears", node, "bad", resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists})
	b.withDevice("ruled", node, "good")
	b.withDevice("waits", node, "good", resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists,
		Effect: resourcev1.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To[int64](3600)})
	b.holdPods("breaks", "ruled")
	defer func() { b.patchMetaAfter("breaks"); b.patchMetaAfter("ruled") }()
	b.publish(resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoExecute})
	b.leavesItsDevice("breaks")
	if b.Before(b.T, 37) {
		b.keepsItsDevice("ruled")
		return
	}
	rules := b.Client.ResourceV1().DeviceTaintRules()
	rule, err := rules.Create(b.Context(), &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: b.ns},
		Spec: resourcev1.DeviceTaintRuleSpec{DeviceSelector: &resourcev1.DeviceTaintSelector{Pool: &b.ns},
			Taint: resourcev1.DeviceTaint{Key: "example.com/repair", Effect: resourcev1.DeviceTaintEffectNone}}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rules.Delete(context.Background(), b.ns, metav1.DeleteOptions{}) })
	b.ruleSays(metav1.ConditionFalse, "NoEffect", "2 published devices selected. 4 allocated devices selected. 2 pods would be evicted in 1 namespace")
	b.keepsItsDevice("ruled")
	b.wait("the rule has an effect", func() error {
		if rule, err = rules.Get(b.Context(), b.ns, metav1.GetOptions{}); err == nil {
			rule.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
			_, err = rules.Update(b.Context(), rule, metav1.UpdateOptions{})
		}
		return err
	})
	b.leavesItsDevice("ruled")
	b.ruleSays(metav1.ConditionTrue, "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.")
	b.keepsItsDevice("bears")
	b.keepsItsDevice("waits")
	for n := range int32(2) { // the second time, the event is repeated
		if err := rules.Delete(b.Context(), b.ns, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.said("waits", "DeviceTaintManagerEviction", "Cancelling deletion", n+1)
		again := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: b.ns}, Spec: rule.Spec}
		if _, err := rules.Create(b.Context(), again, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.ruleSays(metav1.ConditionTrue, "PodsPendingEviction", "1 pod needs to be evicted")
	}
}

// Pods leave devices with taints that they do not tolerate, and rules tell of it.
func TestDeviceTaints(t *testing.T) { // DTE-2 to DTE-7, MEND-32
	share(t).workOfDeviceTaints()
}
