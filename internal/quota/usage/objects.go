package usage

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/quota"
)

var deviceClassKind = resourcev1.SchemeGroupVersion.WithKind("DeviceClass")

// typedResource is a resource whose objects are charged with more than their number.
type typedResource struct {
	kind    schema.GroupVersionKind
	builtIn bool // every API server has it
	fields  []string
}

// typed are the resources that are watched as what they are, because more than their number is charged. Of
// all others metadata is enough.
func typed() map[schema.GroupResource]typedResource {
	core := corev1.SchemeGroupVersion
	return map[schema.GroupResource]typedResource{
		quota.Pods():     {core.WithKind("Pod"), true, quota.PodFields()},
		quota.Services(): {core.WithKind("Service"), true, quota.ServiceFields()},
		quota.Claims():   {core.WithKind("PersistentVolumeClaim"), true, quota.ClaimFields()},
		quota.ResourceClaims(): {resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), false,
			quota.ResourceClaimFields()},
	}
}

// Fields are the fields of the objects that are watched whole, for what they are charged with.
func Fields() projection.Fields {
	kinds := map[schema.GroupVersionKind][]string{deviceClassKind: {"spec.extendedResourceName"}}
	for _, t := range typed() {
		kinds[t.kind] = t.fields
	}
	return projection.Fields{Kinds: kinds}
}

// startTyped watches whole objects. The returned function ends that and waits for it.
func (x *Index) startTyped(ctx context.Context, cancel func(), of schema.GroupResource, kind schema.GroupVersionKind,
	complete func()) (stop func()) {
	counter := x.newCounter(of, complete)
	follow := func(kind schema.GroupVersionKind, plural string, h listwatch.FeedHandler) {
		x.running.Go(func() {
			if err := x.config.Feed(ctx, kind, kind.GroupVersion().WithResource(plural), h); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot count", "resource", of.String())
			}
		})
	}
	if of == quota.ResourceClaims() {
		counter.classes = make(chan struct{})
		follow(deviceClassKind, "deviceclasses", &classFollower{devices: &x.devices, listed: counter.classes})
		counter.complete = func() { // the classes say what claims are charged with
			x.running.Go(func() {
				select {
				case <-counter.classes:
					complete()
				case <-ctx.Done():
				}
			})
		}
	}
	follow(kind, of.Resource, counter)
	return func() {
		counter.mu.Lock()
		defer counter.mu.Unlock()
		counter.ended = true
		cancel()
	}
}

// typedCounter says what the objects of a resource are charged with.
type typedCounter struct {
	index *Index
	of    schema.GroupResource
	// complete is called when all objects which there were have come.
	complete func()
	// classes is closed when device classes are known, which charges of claims depend on.
	classes chan struct{}

	mu     sync.Mutex // held while something is reported, so that nothing comes after the end
	ended  bool
	listed bool
}

// newCounter returns what takes the objects of a watch. The function is called when all that there were have
// come.
func (x *Index) newCounter(of schema.GroupResource, complete func()) *typedCounter {
	return &typedCounter{index: x, of: of, complete: complete}
}

// OnList implements listwatch.FeedHandler.
func (c *typedCounter) OnList(all []metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	there := make(map[types.UID]bool, len(all))
	for _, o := range all {
		there[o.GetUID()] = true
	}
	c.index.devices.retain(c.of, there)
	c.index.sums.Retain(c.of, there)
	for _, o := range all {
		c.put(o, !c.listed)
	}
	if !c.listed {
		c.listed = true
		c.complete()
	}
}

// OnUpdate implements listwatch.FeedHandler.
func (c *typedCounter) OnUpdate(o metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.put(o, !c.listed)
	}
}

// OnDelete implements listwatch.FeedHandler.
func (c *typedCounter) OnDelete(o metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.index.devices.remove(c.of, o.GetNamespace(), o.GetUID()) // first, or it might put a claim into the counters again
	c.index.sums.Remove(c.of, o.GetNamespace(), o.GetUID())
}

// put charges the namespace of an object with what it is.
func (c *typedCounter) put(o metav1.Object, initial bool) {
	x := c.index
	switch o := o.(type) {
	case *corev1.Pod:
		item := quota.Pod(o, x.config.Gates)
		x.sums.Put(c.of, o, item, initial)
		x.devices.putPod(o, item)
	case *corev1.Service:
		x.sums.Put(c.of, o, quota.Service(o), initial)
	case *corev1.PersistentVolumeClaim:
		x.sums.Put(c.of, o, quota.Claim(o), initial)
	case *resourcev1.ResourceClaim:
		x.devices.putClaim(o, initial)
	}
}

// classFollower follows the device classes.
type classFollower struct {
	devices *devices
	listed  chan struct{}
	once    sync.Once
}

// OnList implements listwatch.FeedHandler.
func (f *classFollower) OnList(all []metav1.Object) {
	classes := map[string]corev1.ResourceName{}
	for _, o := range all {
		if c, ok := o.(*resourcev1.DeviceClass); ok {
			classes[c.Name] = standsFor(c)
		}
	}
	f.devices.setClasses(func(all map[string]corev1.ResourceName) {
		clear(all)
		maps.Copy(all, classes)
	})
	f.once.Do(func() { close(f.listed) })
}

// OnUpdate implements listwatch.FeedHandler.
func (f *classFollower) OnUpdate(o metav1.Object) {
	if c, ok := o.(*resourcev1.DeviceClass); ok {
		f.devices.setClasses(func(all map[string]corev1.ResourceName) { all[c.Name] = standsFor(c) })
	}
}

// OnDelete implements listwatch.FeedHandler.
func (f *classFollower) OnDelete(o metav1.Object) {
	f.devices.setClasses(func(all map[string]corev1.ResourceName) { delete(all, o.GetName()) })
}

// standsFor returns the extended resource that a device class stands for.
func standsFor(c *resourcev1.DeviceClass) corev1.ResourceName {
	if c.Spec.ExtendedResourceName == nil {
		return ""
	}
	return corev1.ResourceName(*c.Spec.ExtendedResourceName)
}
