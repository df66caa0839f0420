package actors

//lint:file-ignore SA1019 Endpoints are deprecated; they own the slices that mirror them

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// noteOwnership lets the garbage collector look some time after something was deleted or is to be deleted, or has got an
// owner (which may be gone).
func (c *Cluster) noteOwnership(e *apiserver.Event) {
	owned := e.Before == nil || len(e.Before.GetOwnerReferences()) != len(e.Object.GetOwnerReferences())
	if e.Type != watch.Deleted && e.Object.GetDeletionTimestamp() == nil && !(owned && len(e.Object.GetOwnerReferences()) > 0) || c.collect {
		return
	}
	c.collect = true
	c.after(c.delay("collect", fmt.Sprint(e.Version), 10*time.Millisecond, 500*time.Millisecond), func() {
		c.collect = false
		c.collectGarbage()
	})
}

// owned is an object with the resource that it belongs to.
type owned struct {
	resource string
	apiserver.Object
}

func (c *Cluster) everything() (all []owned) {
	for _, d := range apiserver.All[*appsv1.Deployment](c.server) {
		all = append(all, owned{"deployments", d})
	}
	for _, rs := range apiserver.All[*appsv1.ReplicaSet](c.server) {
		all = append(all, owned{"replicasets", rs})
	}
	for _, rc := range apiserver.All[*corev1.ReplicationController](c.server) {
		all = append(all, owned{"replicationcontrollers", rc})
	}
	for _, p := range apiserver.All[*corev1.Pod](c.server) {
		all = append(all, owned{"pods", p})
	}
	for _, s := range apiserver.All[*corev1.Service](c.server) {
		all = append(all, owned{"services", s})
	}
	for _, e := range apiserver.All[*corev1.Endpoints](c.server) {
		all = append(all, owned{"endpoints", e})
	}
	for _, s := range apiserver.All[*discoveryv1.EndpointSlice](c.server) {
		all = append(all, owned{"endpointslices", s})
	}
	return all
}

// collectGarbage deletes what all owners of which are gone, and does what the finalizers of deleted owners ask for.
func (c *Cluster) collectGarbage() {
	all := c.everything()
	exists := map[types.UID]owned{}
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
func (c *Cluster) collectOne(o owned, exists map[types.UID]owned) {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 || slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { _, ok := exists[r.UID]; return ok }) {
		return
	}
	background := metav1.DeletePropagationBackground
	c.remove("garbage-collector", o.resource, o, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (c *Cluster) orphanDependents(owner owned, all []owned) {
	for _, o := range all {
		if owns(owner, o) {
			c.editMeta(o, func(m metav1.Object) { m.SetOwnerReferences(withoutRef(m.GetOwnerReferences(), owner.GetUID())) })
		}
	}
	c.removeFinalizer(owner, metav1.FinalizerOrphanDependents)
}

func (c *Cluster) deleteDependents(owner owned, all []owned) {
	blocked := false
	for _, o := range all {
		if !owns(owner, o) {
			continue
		}
		blocked = true
		if o.GetDeletionTimestamp() == nil {
			foreground := metav1.DeletePropagationForeground
			c.remove("garbage-collector", o.resource, o, metav1.DeleteOptions{PropagationPolicy: &foreground})
		}
	}
	if !blocked {
		c.removeFinalizer(owner, metav1.FinalizerDeleteDependents)
	}
}

func (c *Cluster) removeFinalizer(o owned, name string) {
	c.editMeta(o, func(m metav1.Object) {
		m.SetFinalizers(slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return f == name }))
	})
}

// editMeta changes the metadata of an object if it is still the same.
func (c *Cluster) editMeta(o owned, edit func(metav1.Object)) {
	same := func(now apiserver.Object) {
		if now.GetUID() == o.GetUID() {
			edit(now)
		}
	}
	switch o.resource {
	case "deployments":
		_, _ = Edit(c.server, "garbage-collector", o.GetNamespace(), o.GetName(), "", func(d *appsv1.Deployment) { same(d) })
	case "replicasets":
		_, _ = Edit(c.server, "garbage-collector", o.GetNamespace(), o.GetName(), "", func(rs *appsv1.ReplicaSet) { same(rs) })
	case "replicationcontrollers":
		_, _ = Edit(c.server, "garbage-collector", o.GetNamespace(), o.GetName(), "", func(rc *corev1.ReplicationController) { same(rc) })
	case "pods":
		_, _ = Edit(c.server, "garbage-collector", o.GetNamespace(), o.GetName(), "", func(p *corev1.Pod) { same(p) })
	}
}

func owns(owner owned, o owned) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}

func withoutRef(refs []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

// emptyNamespace deletes what is in a namespace that is to go, and then lets it go.
func (c *Cluster) emptyNamespace(name string) {
	left := false
	for _, o := range c.everything() {
		if o.GetNamespace() == name {
			left = true
			if o.GetDeletionTimestamp() == nil {
				c.remove("namespace-controller", o.resource, o, metav1.DeleteOptions{})
			}
		}
	}
	for _, s := range apiserver.All[*corev1.Service](c.server) {
		if s.Namespace == name {
			c.remove("namespace-controller", "services", s, metav1.DeleteOptions{})
		}
	}
	if left {
		c.after(time.Second, func() { c.emptyNamespace(name) })
		return
	}
	_, _ = Edit(c.server, "namespace-controller", "", name, "", func(n *corev1.Namespace) { n.Finalizers = nil })
}
