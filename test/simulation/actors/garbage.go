package actors

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// noteOwnership lets the garbage collector look some time after something was deleted or is to be deleted, or has got an
// owner (which may be gone).
func (c *Cluster) noteOwnership(e *apiserver.Event) {
	if c.LeaveGarbage {
		return
	}
	owned := e.Before == nil || len(e.Before.GetOwnerReferences()) != len(e.Object.GetOwnerReferences())
	if e.Type != watch.Deleted && e.Object.GetDeletionTimestamp() == nil && !(owned && len(e.Object.GetOwnerReferences()) > 0) ||
		c.collect {
		return
	}
	c.collect = true
	c.after(c.delay("collect", string(e.Object.GetUID()), 10*time.Millisecond, 500*time.Millisecond), func() {
		c.collect = false
		c.collectGarbage()
	})
}

// everything is all that may have an owner, or be one. Of events there are many, and they have none.
func (c *Cluster) everything() []apiserver.Stored {
	return slices.DeleteFunc(c.server.Everything(), func(o apiserver.Stored) bool { return o.Resource == "events" })
}

// collectGarbage deletes what all owners of which are gone, and does what the finalizers of deleted owners ask for.
func (c *Cluster) collectGarbage() {
	all := c.everything()
	exists := map[types.UID]apiserver.Stored{}
	for _, o := range all {
		exists[o.GetUID()] = o
	}
	for _, o := range all {
		finalizers := o.GetFinalizers()
		switch {
		case o.GetDeletionTimestamp() == nil:
			c.collectOne(o, exists)
		case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
			c.orphanDependents(o, all)
		case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
			c.deleteDependents(o, all)
		}
	}
}

// collectOne deletes an object if it has owners and none of them exists.
func (c *Cluster) collectOne(o apiserver.Stored, exists map[types.UID]apiserver.Stored) {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 || slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { _, ok := exists[r.UID]; return ok }) {
		return
	}
	background := metav1.DeletePropagationBackground
	c.remove("garbage-collector", o.Resource, o, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (c *Cluster) orphanDependents(owner apiserver.Stored, all []apiserver.Stored) {
	for _, o := range all {
		if owns(owner, o) {
			c.editMeta(o, func(m metav1.Object) { m.SetOwnerReferences(withoutRef(m.GetOwnerReferences(), owner.GetUID())) })
		}
	}
	c.removeFinalizer(owner, metav1.FinalizerOrphanDependents)
}

func (c *Cluster) deleteDependents(owner apiserver.Stored, all []apiserver.Stored) {
	blocked := false
	for _, o := range all {
		if !owns(owner, o) {
			continue
		}
		blocked = true
		if o.GetDeletionTimestamp() == nil {
			foreground := metav1.DeletePropagationForeground
			c.remove("garbage-collector", o.Resource, o, metav1.DeleteOptions{PropagationPolicy: &foreground})
		}
	}
	if !blocked {
		c.removeFinalizer(owner, metav1.FinalizerDeleteDependents)
	}
}

func (c *Cluster) removeFinalizer(o apiserver.Stored, name string) {
	c.editMeta(o, func(m metav1.Object) {
		m.SetFinalizers(slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return f == name }))
	})
}

// editMeta changes the metadata of an object if it is still the same.
func (c *Cluster) editMeta(o apiserver.Stored, edit func(metav1.Object)) {
	_, _ = editAny(c.server, "garbage-collector", o.Resource, o.GetNamespace(), o.GetName(), "", func(now apiserver.Object) {
		if now.GetUID() == o.GetUID() {
			edit(now)
		}
	})
}

func owns(owner, o apiserver.Stored) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}

func withoutRef(refs []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

// emptyNamespace deletes what is in a namespace that is to go, and then lets it go. The managers may have done so before. It is called when
// nothing can come any more that was admitted before (NS-4).
func (c *Cluster) emptyNamespace(name string, uid types.UID) {
	if now, err := c.server.Get("namespaces", "", name); err != nil || now.GetUID() != uid {
		return
	}
	left := false
	for _, o := range c.server.Everything() {
		if o.GetNamespace() == name {
			left = true
			if o.GetDeletionTimestamp() == nil {
				c.remove("namespace-controller", o.Resource, o, metav1.DeleteOptions{})
			}
		}
	}
	if left {
		c.after(time.Second, func() { c.emptyNamespace(name, uid) })
		return
	}
	_, _ = Edit(c.server, "namespace-controller", "", name, "finalize", func(n *corev1.Namespace) { n.Spec.Finalizers = nil })
}
