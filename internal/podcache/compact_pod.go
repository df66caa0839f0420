package podcache

import (
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// compactPod is a pod as its cache stores it. A corev1.Pod takes 1280 bytes. After projection most of them are empty,
// and most of the rest is equal in all pods of a controller. So a compactPod has the fields that differ from pod to
// pod, and points to the rest, which pods share.
type compactPod struct {
	metav1.ObjectMeta
	spec   *corev1.PodSpec   // without the fields below
	status *corev1.PodStatus // likewise

	// These differ from pod to pod of one controller; the rest of spec and status is shared.
	nodeName, hostname, podIP string
	podIPs                    []corev1.PodIP
	conditions                []corev1.PodCondition
	volumes                   []corev1.Volume

	mu       sync.Mutex
	expanded weak.Pointer[corev1.Pod] // so that frequent readers do not make a new pod each time
}

// compact returns the stored form of a pod, which nobody else refers to yet. The pod must not be used afterwards.
func (i *interner) compact(p *corev1.Pod) *compactPod {
	i.mu.Lock()
	defer i.mu.Unlock()
	pack(&p.Name, (*string)(&p.UID), &p.ResourceVersion, &p.Status.PodIP)
	parts := i.internPod(p)
	c := &compactPod{
		ObjectMeta: p.ObjectMeta,
		nodeName:   p.Spec.NodeName, hostname: p.Spec.Hostname,
		podIP: p.Status.PodIP, podIPs: p.Status.PodIPs, conditions: p.Status.Conditions,
		volumes: p.Spec.Volumes,
	}
	p.Spec.NodeName, p.Spec.Hostname, p.Spec.Volumes = "", "", nil
	p.Status.PodIP, p.Status.PodIPs, p.Status.Conditions = "", nil, nil
	c.spec, c.status = same(parts.spec.Value(), &p.Spec), same(parts.status.Value(), &p.Status)
	parts.spec, parts.status = weak.Make(c.spec), weak.Make(c.status)
	if parts.about.Value() == &p.ObjectMeta { // which is dropped
		parts.about = weak.Make(&c.ObjectMeta)
	}
	return c
}

// pack copies texts into one piece of memory. What was decoded beside them is garbage soon; texts that stay would
// keep the blocks of memory in use that they share with it.
func pack(texts ...*string) {
	n := 0
	for _, t := range texts {
		n += len(*t)
	}
	var all strings.Builder
	all.Grow(n)
	for _, t := range texts {
		all.WriteString(*t)
	}
	rest := all.String()
	for _, t := range texts {
		*t, rest = rest[:len(*t)], rest[len(*t):]
	}
}

// expand returns the pod, whose parts belong to the cache. It stays in memory until the garbage collection after its
// last use.
func (c *compactPod) expand() *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.expanded.Value(); p != nil {
		return p
	}
	p := &corev1.Pod{ObjectMeta: c.ObjectMeta, Spec: *c.spec, Status: *c.status}
	p.Spec.NodeName, p.Spec.Hostname, p.Spec.Volumes = c.nodeName, c.hostname, c.volumes
	p.Status.PodIP, p.Status.PodIPs, p.Status.Conditions = c.podIP, c.podIPs, c.conditions
	c.expanded = weak.Make(p)
	return p
}

// GetObjectKind implements runtime.Object. Objects of caches do not know their kinds.
func (c *compactPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (c *compactPod) DeepCopyObject() runtime.Object {
	return newInterner(nil).compact(c.expand().DeepCopy())
}

// Expanded returns the pod for a compact one, and everything else as it is.
func Expanded(o any) any {
	switch o := o.(type) {
	case *compactPod:
		return o.expand()
	case cache.DeletedFinalStateUnknown:
		o.Obj = Expanded(o.Obj)
		return o
	}
	return o
}
