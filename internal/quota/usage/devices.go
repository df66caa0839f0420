package usage

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
)

// devices keeps what the charges of ResourceClaims depend on: device classes, and the pods for whose extended
// resources claims were made (RQ-32). Only pods with extended resources are kept.
type devices struct {
	gates quota.Gates
	sums  *sums.Sums

	mu sync.Mutex
	// classes are the extended resources that device classes stand for, by the name of the class.
	classes map[string]corev1.ResourceName
	claims  map[types.UID]*resourcev1.ResourceClaim
	byPod   map[podID]map[types.UID]*resourcev1.ResourceClaim // the claims that were made for a pod
	// pods are those with extended resources.
	pods map[podID]quota.Owner
}

// podID identifies a pod. What a pod owns is in its namespace.
type podID struct {
	namespace string
	uid       types.UID
}

// podOf returns the pod that a claim was made for; false if it was made for none.
func podOf(c *resourcev1.ResourceClaim) (podID, bool) {
	if c != nil {
		if ref := quota.ForExtendedResources(c); ref != nil {
			return podID{c.Namespace, ref.UID}, true
		}
	}
	return podID{}, false
}

// reset forgets all devices, as when their watch begins anew.
func (d *devices) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.classes, d.claims = map[string]corev1.ResourceName{}, map[types.UID]*resourcev1.ResourceClaim{}
	d.byPod, d.pods = map[podID]map[types.UID]*resourcev1.ResourceClaim{}, map[podID]quota.Owner{}
}

// forget drops the objects of a resource that is not watched any more.
func (d *devices) forget(of schema.GroupResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch of {
	case quota.Pods():
		clear(d.pods)
	case quota.ResourceClaims():
		clear(d.claims)
		clear(d.byPod)
		clear(d.classes)
	}
}

// setClasses changes the device classes, and charges all claims anew.
func (d *devices) setClasses(change func(map[string]corev1.ResourceName)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.classes)
	for _, c := range d.claims {
		d.charge(c, false)
	}
}

// putClaim notes a claim. A user may have changed for which pod it was made.
func (d *devices) putClaim(c *resourcev1.ResourceClaim, initial bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, hadPod := podOf(d.claims[c.UID])
	pod, hasPod := podOf(c)
	if hadPod && (!hasPod || pod != before) {
		d.removeFrom(before, c.UID)
	}
	d.claims[c.UID] = c
	if hasPod {
		if d.byPod[pod] == nil {
			d.byPod[pod] = map[types.UID]*resourcev1.ResourceClaim{}
		}
		d.byPod[pod][c.UID] = c
	}
	d.charge(c, initial)
	if hasPod {
		d.chargeClaims(pod)
	}
}

// putPod notes what a pod is charged with for extended resources.
func (d *devices) putPod(p *corev1.Pod, item quota.Item) {
	charged := corev1.ResourceList{}
	for name, amount := range item.At(d.sums.Now()) {
		if strings.Contains(string(name), "/") && strings.HasPrefix(string(name), "requests.") {
			charged[name] = amount
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	pod := podID{p.Namespace, p.UID}
	_, known := d.pods[pod]
	if len(charged) == 0 && !known && len(d.byPod[pod]) == 0 {
		return
	}
	o := quota.Owner{UID: p.UID, Charged: charged}
	if status := p.Status.ExtendedResourceClaimStatus; status != nil {
		o.Recorded = status.ResourceClaimName
	}
	d.pods[pod] = o
	d.chargeClaims(pod)
}

// podExpired notes that a pod is charged no longer with extended resources, because its time to end is over. Its
// claims are, from now on.
func (d *devices) podExpired(pod podID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, ok := d.pods[pod]; ok {
		o.Charged = nil
		d.pods[pod] = o
		d.chargeClaims(pod)
	}
}

// remove forgets an object.
func (d *devices) remove(of schema.GroupResource, namespace string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch of {
	case quota.Pods():
		pod := podID{namespace, uid}
		delete(d.pods, pod)
		d.chargeClaims(pod)
	case quota.ResourceClaims():
		pod, ok := podOf(d.claims[uid])
		delete(d.claims, uid)
		if ok {
			d.removeFrom(pod, uid)
		}
	}
}

// retain forgets what a list does not have.
func (d *devices) retain(of schema.GroupResource, there map[types.UID]bool) {
	d.mu.Lock()
	var lost []podID
	for pod := range d.pods {
		if of == quota.Pods() && !there[pod.uid] {
			lost = append(lost, pod)
		}
	}
	for uid, c := range d.claims {
		if of == quota.ResourceClaims() && !there[uid] {
			lost = append(lost, podID{c.Namespace, uid})
		}
	}
	d.mu.Unlock()
	for _, one := range lost {
		d.remove(of, one.namespace, one.uid)
	}
}

// removeFrom notes that a claim does not belong to a pod any more.
func (d *devices) removeFrom(pod podID, claim types.UID) {
	if delete(d.byPod[pod], claim); len(d.byPod[pod]) == 0 {
		delete(d.byPod, pod)
	}
	d.chargeClaims(pod)
}

// chargeClaims charges the claims of a pod anew.
func (d *devices) chargeClaims(pod podID) {
	for _, c := range d.byPod[pod] {
		d.charge(c, false)
	}
}

// charge works out what a claim is charged with, which depends on the pod that it is for. It is called under
// the lock.
func (d *devices) charge(c *resourcev1.ResourceClaim, initial bool) {
	var owner *quota.Owner
	if pod, ok := podOf(c); ok {
		if o, known := d.pods[pod]; known {
			o.Oldest = d.oldest(pod)
			owner = &o
		}
	}
	d.sums.Put(quota.ResourceClaims(), c, quota.ResourceClaim(c, d.classes, owner, d.gates), initial)
}

// oldest returns the oldest claim that was made for a pod.
func (d *devices) oldest(pod podID) types.UID {
	var first *resourcev1.ResourceClaim
	for _, c := range d.byPod[pod] {
		if first == nil || quota.Older(c, first) {
			first = c
		}
	}
	if first == nil {
		return ""
	}
	return first.UID
}
