package actors

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

const (
	// managedVolumes is the annotation of nodes whose kubelets leave it to a controller to attach volumes.
	managedVolumes = "volumes.kubernetes.io/controller-managed-attach-detach"
	// byHand is how the names of drivers begin whose part users play themselves.
	byHand = "by-hand."

	attacherFails, attacherStops, kubeletsHang = "fail", "stop", "hang"
)

// SetAttacher lets the external-attachers of all CSI drivers fail or stop, kubelets hang when they unmount, or all of them work again
// ("start").
func (c *Cluster) SetAttacher(mode string) {
	if mode == kubeletsHang {
		c.hang = true
		return
	}
	if c.attacher = mode; mode == attacherFails || mode == attacherStops {
		return
	}
	c.hang = false
	for _, n := range apiserver.All[*corev1.Node](c.server) {
		if len(n.Status.VolumesInUse) > 0 {
			c.lookAtVolumes(n.Name, 100*time.Millisecond)
		}
	}
}

// noteAttachment makes an appointment for the external-attacher of a driver, which attaches what a new VolumeAttachment asks for, and
// detaches it when that is deleted.
func (c *Cluster) noteAttachment(e *apiserver.Event) {
	a := e.Object.(*storagev1.VolumeAttachment)
	before, _ := e.Before.(*storagev1.VolumeAttachment)
	if e.Type == watch.Deleted || strings.HasPrefix(a.Spec.Attacher, byHand) {
		return
	}
	switch {
	case a.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil):
		c.after(c.delay("detach", a.Name, 50*time.Millisecond, 2*time.Second), func() { c.detach(a) })
	case before == nil:
		c.after(c.delay("attach", a.Name, 50*time.Millisecond, 2*time.Second), func() { c.attach(a) })
	}
}

// attach sees to it that the volume is detached before its VolumeAttachment goes, and attaches it.
func (c *Cluster) attach(a *storagev1.VolumeAttachment) {
	if c.attacher == attacherStops {
		c.after(time.Second, func() { c.attach(a) })
		return
	}
	finalizer := "external-attacher/" + a.Spec.Attacher
	if !c.editAttachment(a, "", func(a *storagev1.VolumeAttachment) {
		if a.DeletionTimestamp == nil && !slices.Contains(a.Finalizers, finalizer) {
			a.Finalizers = append(a.Finalizers, finalizer)
		}
	}) {
		return
	}
	c.editAttachment(a, "status", func(a *storagev1.VolumeAttachment) {
		a.Status.Attached, a.Status.AttachError = true, nil
		if c.attacher == attacherFails {
			a.Status.Attached, a.Status.AttachError = false, failure()
		}
	})
	if c.attacher == attacherFails {
		c.after(5*time.Second, func() { c.attach(a) })
	}
}

func failure() *storagev1.VolumeError {
	return &storagev1.VolumeError{Time: metav1.Now().Rfc3339Copy(), Message: "the storage does not answer"}
}

// detach detaches the volume and lets its VolumeAttachment go.
func (c *Cluster) detach(a *storagev1.VolumeAttachment) {
	switch c.attacher {
	case attacherStops:
		c.after(time.Second, func() { c.detach(a) })
	case attacherFails:
		c.editAttachment(a, "status", func(a *storagev1.VolumeAttachment) { a.Status.DetachError = failure() })
		c.after(5*time.Second, func() { c.detach(a) })
	default:
		c.editAttachment(a, "", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	}
}

// editAttachment changes a VolumeAttachment if it is still the same, and reports whether it is.
func (c *Cluster) editAttachment(a *storagev1.VolumeAttachment, subresource string, edit func(*storagev1.VolumeAttachment)) bool {
	same := false
	_, _ = Edit(c.server, "external-attacher", "", a.Name, subresource, func(now *storagev1.VolumeAttachment) {
		if same = now.UID == a.UID; same {
			edit(now)
		}
	})
	return same
}

// noteUse makes an appointment for the kubelet of a pod, which says which volumes it uses.
func (c *Cluster) noteUse(e *apiserver.Event) {
	p := e.Object.(*corev1.Pod)
	if p.Spec.NodeName != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		c.lookAtVolumes(p.Spec.NodeName, 100*time.Millisecond)
	}
}

// lookAtVolumes lets a kubelet look at its volumes after a time, if it is not about to.
func (c *Cluster) lookAtVolumes(node string, after time.Duration) {
	if c.looking[node] {
		return
	}
	c.looking[node] = true
	c.after(after, func() {
		delete(c.looking, node)
		c.reportUse(node)
	})
}

// reportUse is the kubelet that says which volumes its pods use. Those of a pod that has just gone it has unmounted by then.
func (c *Cluster) reportUse(node string) {
	n := apiserver.One[*corev1.Node](c.server, "", node)
	if n == nil {
		return
	}
	if c.lost[node] {
		c.lookAtVolumes(node, time.Second)
		return
	}
	var used []corev1.UniqueVolumeName
	if c.hang {
		used = slices.Clone(n.Status.VolumesInUse)
	}
	unbound := false
	for _, p := range apiserver.All[*corev1.Pod](c.server) {
		if p.Spec.NodeName != node || finished(p) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			switch name := c.volumeOf(p.Namespace, v.PersistentVolumeClaim.ClaimName); {
			case name == "":
				unbound = true
			case !slices.Contains(used, name):
				used = append(used, name)
			}
		}
	}
	slices.Sort(used)
	if !slices.Equal(used, n.Status.VolumesInUse) {
		_, _ = Edit(c.server, "kubelet", "", node, "status", func(n *corev1.Node) { n.Status.VolumesInUse = used })
	}
	if unbound {
		c.lookAtVolumes(node, 5*time.Second)
	}
}

// volumeOf is the name of the volume of a claim in the status of a node; empty if it has none of a CSI driver.
func (c *Cluster) volumeOf(namespace, claim string) corev1.UniqueVolumeName {
	bound := apiserver.One[*corev1.PersistentVolumeClaim](c.server, namespace, claim)
	if bound == nil || bound.Status.Phase != corev1.ClaimBound {
		return ""
	}
	v := apiserver.One[*corev1.PersistentVolume](c.server, "", bound.Spec.VolumeName)
	if v == nil || v.Spec.CSI == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != bound.UID {
		return ""
	}
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle)
}
