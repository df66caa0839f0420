package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// oneGPU is what claims ask for.
func oneGPU() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}}}
}

// deviceTemplate makes a template of claims.
func (b *bench) deviceTemplate(name string) {
	b.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": "template"}, Annotations: map[string]string{"note": "x"}},
		Spec:       oneGPU()}}
	if _, err := b.Client.ResourceV1().ResourceClaimTemplates(b.ns).Create(b.Context(), template, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// deviceClaim makes a claim that pods may share.
func (b *bench) deviceClaim(name string) {
	b.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: oneGPU()}
	if _, err := b.Client.ResourceV1().ResourceClaims(b.ns).Create(b.Context(), claim, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// withDevices makes a pod with these entries: names of templates, or of claims after a colon. On a node that does not exist it is there
// until it is deleted.
func (b *bench) withDevices(name, node string, entries ...string) *corev1.Pod {
	b.Helper()
	return b.mounting(name, "x", func(p *corev1.Pod) {
		p.Spec.Volumes, p.Spec.SchedulerName, p.Spec.NodeName = nil, "nobody", node
		for i, e := range entries {
			entry := corev1.PodResourceClaim{Name: string("abc"[i])}
			if claim, shared := strings.CutPrefix(e, ":"); shared {
				entry.ResourceClaimName = &claim
			} else {
				entry.ResourceClaimTemplateName = &e
			}
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
		}
	})
}

func (b *bench) getDeviceClaim(name string) (*resourcev1.ResourceClaim, error) {
	return b.Client.ResourceV1().ResourceClaims(b.ns).Get(b.Context(), name, metav1.GetOptions{})
}

// waitDevices waits until the status of a pod names claims of its own for these entries, and returns them.
func (b *bench) waitDevices(pod *corev1.Pod, entries ...string) (claims []*resourcev1.ResourceClaim) {
	b.Helper()
	b.wait(pod.Name+" has its claims", func() error {
		claims = nil
		p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.ResourceClaimStatuses) != len(entries) {
			return fmt.Errorf("its status has %v", p.Status.ResourceClaimStatuses)
		}
		for i, s := range p.Status.ResourceClaimStatuses {
			c, err := b.getDeviceClaim(ptr.Deref(s.ResourceClaimName, ""))
			if err != nil {
				return err
			}
			if s.Name != entries[i] || !metav1.IsControlledBy(c, pod) || c.DeletionTimestamp != nil {
				return fmt.Errorf("%s has %+v", s.Name, c.ObjectMeta)
			}
			claims = append(claims, c)
		}
		return nil
	})
	return claims
}

// reserve does what the scheduler does: a claim gets the finalizer, a device, and reservations.
func (b *bench) reserve(name string, pods ...*corev1.Pod) {
	b.Helper()
	b.reserveDevice(name, firstGPU(), pods...)
}

func firstGPU() resourcev1.DeviceRequestAllocationResult {
	return resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.example.com", Pool: "pool", Device: "gpu-0"}
}

// reserveDevice does so with a device.
func (b *bench) reserveDevice(name string, device resourcev1.DeviceRequestAllocationResult, pods ...*corev1.Pod) {
	b.Helper()
	var all []resourcev1.ResourceClaimConsumerReference
	for _, p := range pods {
		all = append(all, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	b.reserveFor(name, device, all...)
}

// reserveFor does so for pods or others.
func (b *bench) reserveFor(name string, device resourcev1.DeviceRequestAllocationResult,
	consumers ...resourcev1.ResourceClaimConsumerReference) {
	b.Helper()
	b.wait(name+" is reserved", func() error {
		c, err := b.getDeviceClaim(name)
		if err != nil {
			return err
		}
		if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
			c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
			if c, err = b.Client.ResourceV1().ResourceClaims(b.ns).Update(b.Context(), c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{device}}}
		c.Status.ReservedFor = append(c.Status.ReservedFor, consumers...)
		_, err = b.Client.ResourceV1().ResourceClaims(b.ns).UpdateStatus(b.Context(), c, metav1.UpdateOptions{})
		return err
	})
}

// deviceClaimIs waits until a claim is in a state: its reservations, whether it is allocated and the number of its finalizers; or gone.
func (b *bench) deviceClaimIs(name, want string) {
	b.Helper()
	b.wait("the claim "+name+" is "+want, func() error {
		c, err := b.getDeviceClaim(name)
		if apierrors.IsNotFound(err) && want == "gone" {
			return nil
		}
		if err != nil {
			return err
		}
		var by []string
		for _, r := range c.Status.ReservedFor {
			by = append(by, r.Name)
		}
		if got := fmt.Sprintf("%v %t %d", by, c.Status.Allocation != nil, len(c.Finalizers)); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// Each entry of a pod with a template gets a claim of its own, also after somebody has deleted that, and they go when the pod has ended,
// while it is still there.
func TestDeviceClaims(t *testing.T) { // RC-113, RC-120 to RC-126, RC-134, RC-179
	b := share(t)
	web := b.withDevices("web", "", "gpus", "gpus")
	b.said("web", "FailedResourceClaimCreation", `PodResourceClaim a: resourceclaimtemplate "gpus" not found`, 1)
	b.deviceTemplate("gpus")
	claims := b.waitDevices(web, "a", "b")
	made := claims[0]
	if made.Labels["of"] != "template" || made.Annotations[resourcev1.PodResourceClaimAnnotation] != "a" ||
		made.Annotations["note"] != "x" ||
		!strings.HasPrefix(made.Name, "web-a-") || made.GenerateName != "web-a-" || made.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("%+v", made.ObjectMeta)
	}
	if err := b.Client.ResourceV1().ResourceClaims(b.ns).Delete(b.Context(), made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.wait("a claim that was deleted is made anew", func() error {
		c, err := b.getDeviceClaim(b.waitDevices(web, "a", "b")[0].Name)
		if err == nil && c.UID == made.UID {
			err = fmt.Errorf("it is the same one")
		}
		return err
	})
	b.reserve(claims[1].Name, web)
	b.endPod(*web, corev1.PodFailed)
	b.deviceClaimIs(claims[0].Name, "gone")
	b.deviceClaimIs(claims[1].Name, "gone")
	if p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), "web", metav1.GetOptions{}); err != nil || p.UID != web.UID {
		t.Error("the pod is gone, too: ", err)
	}
	gone := b.withDevices("gone", "", "gpus")
	claim := b.waitDevices(gone, "a")[0]
	b.reserve(claim.Name, gone)
	b.removePod("gone")
	b.deviceClaimIs(claim.Name, "gone") // by the garbage collector
}

// Reservations of a shared claim follow its pods, those that were placed without the scheduler included, and nobody else's are touched.
func TestSharedDeviceClaims(t *testing.T) { // RC-127, RC-130 to RC-133, MEND-31
	b := share(t)
	b.deviceClaim("gpu")
	one, two := b.withDevices("one", "", ":gpu"), b.withDevices("two", "", ":gpu")
	b.reserve("gpu", one, two, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "never", UID: "no-such-uid"}})
	b.deviceClaimIs("gpu", "[one two] true 1")
	b.endPod(*one, corev1.PodSucceeded)
	b.deviceClaimIs("gpu", "[two] true 1")
	b.removePod("two")
	b.deviceClaimIs("gpu", "[] false 0")
	b.reserve("gpu")
	node := b.attachingNode("devices")
	b.withDevices("placed", node, ":gpu")
	b.deviceClaimIs("gpu", "[placed] true 1")
	if err := b.Client.ResourceV1().ResourceClaims(b.ns).Delete(b.Context(), "gpu", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.deviceClaimIs("gpu", "[placed] true 1")
	b.endsAtOnce("placed")
	b.deviceClaimIs("gpu", "gone")
}

// Pods of a PodGroup share the claim of an entry that it has, too. It is reserved for the PodGroup, and goes with it.
func TestDeviceClaimsOfPodGroups(t *testing.T) { // RC-160, RC-161
	b := share(t)
	if !serves(t, b.Cluster, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")) {
		t.Skip("this API server has no PodGroups")
	}
	b.deviceTemplate("gpus")
	b.lifeOfAGang("gpus")
}

// lifeOfAGang makes a PodGroup and two pods of it with an entry for the template, and deletes them.
func (b *bench) lifeOfAGang(template string) {
	b.Helper()
	groups := b.Client.SchedulingV1beta1().PodGroups(b.ns)
	gang := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}}
	gang.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	gang.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "a", ResourceClaimTemplateName: &template}}
	gang, err := groups.Create(b.Context(), gang, metav1.CreateOptions{})
	if err != nil || len(gang.Spec.ResourceClaims) != 1 {
		b.Fatal(gang.Spec.ResourceClaims, err)
	}
	var claim *resourcev1.ResourceClaim
	b.wait("the PodGroup records its claim", func() error {
		g, err := groups.Get(b.Context(), "gang", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(g.Status.ResourceClaimStatuses) != 1 {
			return fmt.Errorf("its status has %v", g.Status.ResourceClaimStatuses)
		}
		claim, err = b.getDeviceClaim(*g.Status.ResourceClaimStatuses[0].ResourceClaimName)
		return err
	})
	if !metav1.IsControlledBy(claim, gang) || !strings.HasPrefix(claim.Name, "gang-a-") {
		b.Errorf("%+v", claim.ObjectMeta)
	}
	for _, name := range []string{"one", "two"} {
		b.mounting(name, "x", func(p *corev1.Pod) {
			p.Spec.Volumes, p.Spec.SchedulerName = nil, "nobody"
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang.Name}
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: &template}}
		})
		b.wait(name+" records the claim of its group", func() error {
			p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), name, metav1.GetOptions{})
			if err == nil && podutil.DeviceRecordsOf(p)["a"] != claim.Name {
				err = fmt.Errorf("its status has %v", p.Status.ResourceClaimStatuses)
			}
			return err
		})
	}
	b.reserveFor(claim.Name, firstGPU(), resourcev1.ResourceClaimConsumerReference{
		APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: gang.UID})
	b.removePod("one")
	b.removePod("two")
	b.deviceClaimIs(claim.Name, "[gang] true 1")
	if err := groups.Delete(b.Context(), "gang", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.deviceClaimIs(claim.Name, "gone") // by the garbage collector
}

// workOfDeviceClaims has claims made, recorded, read live, released and deleted.
func (b *bench) workOfDeviceClaims() {
	b.Helper()
	b.deviceTemplate("gpus")
	if serves(b.T, b.Cluster, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")) {
		b.lifeOfAGang("gpus")
	}
	web := b.withDevices("web", "", "gpus")
	claim := b.waitDevices(web, "a")[0]
	b.reserve(claim.Name, web, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "never", UID: "no-such-uid"}})
	b.deviceClaimIs(claim.Name, "[web] true 1")
	other := b.withDevices("other", "", "gpus")
	b.waitDevices(other, "a")
	record := []byte(`{"status":{"resourceClaimStatuses":[{"name":"a","resourceClaimName":"no-such-claim"}]}}`)
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(b.Context(), "other", types.StrategicMergePatchType, record, metav1.PatchOptions{},
		"status"); err != nil {
		b.Fatal(err)
	}
	b.waitDevices(other, "a")
	lost := b.withDevices("lost", "", "gpus", "none")
	b.said("lost", "FailedResourceClaimCreation", `PodResourceClaim b: resourceclaimtemplate "none" not found`, 1)
	b.waitDevices(lost, "a")
	b.endPod(*web, corev1.PodFailed)
	b.deviceClaimIs(claim.Name, "gone")
}
