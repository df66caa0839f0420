package devicetainteviction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds after epoch.
func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func timeAt(seconds int) *metav1.Time { return &metav1.Time{Time: at(seconds)} }

// newMeta is that of an object that was created long before epoch.
func newMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "5", Generation: 3,
		CreationTimestamp: *timeAt(-5000)}
}

type podEdit = func(*corev1.Pod)

// newPod is a pod on a node.
func newPod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: newMeta("shop", name)}
	p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// names gives a pod an entry that names a claim.
func names(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
}

// made gives a pod an entry with a template, for which a claim was made.
func made(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: claim, ResourceClaimTemplateName: ptr.To("gpu")})
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses,
			corev1.PodResourceClaimStatus{Name: claim, ResourceClaimName: &claim})
	}
}

// extended has the status of a pod name the claim of its extended resources.
func extended(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim}
	}
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = timeAt(0) }

func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func unbound(p *corev1.Pod) { p.Spec.NodeName = "" }

func uid(of types.UID) podEdit { return func(p *corev1.Pod) { p.UID = of } }

func marked(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: *timeAt(-7)})
}

type claimEdit = func(*resourcev1.ResourceClaim)

// newClaim is a claim with the device d0 of the pool p, which was allocated at epoch - 1000 s.
func newClaim(name string, edits ...claimEdit) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: newMeta("shop", name)}
	c.Status.Allocation = &resourcev1.AllocationResult{AllocationTimestamp: timeAt(-1000)}
	has("p", "d0")(c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// has gives a claim a device, with tolerations.
func has(pool, name string, tolerations ...resourcev1.DeviceToleration) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			device{Request: "r", Driver: "gpu.example.com", Pool: pool, Device: name, Tolerations: tolerations})
	}
}

// only has a claim have this device and no other.
func only(pool, name string, tolerations ...resourcev1.DeviceToleration) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.Devices.Results = nil
		has(pool, name, tolerations...)(c)
	}
}

// tolerating has the device d0 be the only one of a claim, with tolerations.
func tolerating(tolerations ...resourcev1.DeviceToleration) claimEdit {
	return only("p", "d0", tolerations...)
}

func unallocated(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }

// by has pods reserve a claim.
func by(pods ...*corev1.Pod) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
	}
}

// of has a claim belong to a pod.
func of(p *corev1.Pod) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	}
}

// tolerates is a toleration of a key for so many seconds; negative: without end.
func tolerates(key string, seconds int64) resourcev1.DeviceToleration {
	t := resourcev1.DeviceToleration{Key: key, Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}

// bad is a NoExecute taint that was added so many seconds after epoch.
func bad(key string, added int) resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{Key: key, Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: timeAt(added)}
}

func withEffect(effect resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
	t := bad("k", 0)
	t.Effect = effect
	return t
}

// newSlice is a slice of the pool p with the device d0, which has taints, and d1, which has none.
func newSlice(name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	return sliceOf("p", name, generation, taints...)
}

func sliceOf(pool, name string, generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: newMeta("", name)}
	s.Spec.Driver, s.Spec.Pool = "gpu.example.com", resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1}
	s.Spec.Devices = []resourcev1.Device{{Name: "d0", Taints: taints}, {Name: "d1"}}
	return s
}

// newRule is a rule with a taint for the devices that it selects; nil for none.
func newRule(name string, selector *resourcev1.DeviceTaintSelector, taint resourcev1.DeviceTaint) *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: newMeta("", name)}
	r.Spec = resourcev1.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: taint}
	return r
}

// everything selects all devices.
func everything() *resourcev1.DeviceTaintSelector { return &resourcev1.DeviceTaintSelector{} }

// inPool selects the devices of a pool.
func inPool(pool string) *resourcev1.DeviceTaintSelector {
	return &resourcev1.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Pool: &pool}
}

// newTestCaches returns caches with these objects.
func newTestCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0), true)
	if err != nil {
		t.Fatal(err)
	}
	k.brake = brake.New(brake.Budget{})
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

func (k *caches) cache(t interface{ Fatal(...any) }, o plan.Object) {
	informer := k.pods.Informer()
	switch o.(type) {
	case *resourcev1.ResourceClaim:
		informer = k.claims.Informer()
	case *resourcev1.ResourceSlice:
		informer = k.slices.Informer()
	case *resourcev1.DeviceTaintRule:
		informer = k.rules.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

// look observes the pod web at epoch.
func (k *caches) look(t interface{ Fatal(...any) }, m memory) snapshot {
	r := reconcile.Request[memory]{Key: plan.Key{Namespace: "shop", Name: "web"}, Now: epoch, Memory: &m}
	o, err := k.observe(context.Background(), r)
	if err != nil || !o.Exists {
		t.Fatal(o, err)
	}
	return o.Snapshot
}

// crowd are n pods, web-0 and so on, with a claim and the device d0 of the pool p each.
func crowd(n int) (objects []plan.Object) {
	for i := range n {
		name := fmt.Sprint("web-", i)
		p := newPod(name, names(name))
		objects = append(objects, p, newClaim(name, by(p)))
	}
	return objects
}

// said is a plan as text.
func said(p plan.Plan) (all []string) {
	for _, ref := range p.Proof {
		all = append(all, "if "+ref.String()+" bears it out")
	}
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.RecordEvent:
			all = append(all, s.Event.Type+" "+s.Event.Reason+" "+s.Event.Message)
		case plan.Change:
			for _, c := range s.New.(*corev1.Pod).Status.Conditions {
				all = append(all, fmt.Sprintf("%s %s %s %s %d %s", s.Subresource, c.Type, c.Status, c.Reason, c.ObservedGeneration,
					c.LastTransitionTime.Sub(epoch)))
			}
		case plan.Delete:
			all = append(all, fmt.Sprintf("delete %s grace=%v", s.Objects[0].GetName(), s.Grace))
		}
	}
	if p.Requeue > 0 {
		all = append(all, "again in "+p.Requeue.String())
	}
	return all
}

func deletes(p plan.Plan) bool {
	for _, s := range p.Steps {
		if _, ok := s.(plan.Delete); ok {
			return true
		}
	}
	return false
}
