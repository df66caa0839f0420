package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

const noProvisioner = "kubernetes.io/no-provisioner"

func (w *world) claim(ctx context.Context, c *corev1.PersistentVolumeClaim) *verdict {
	switch c.Status.Phase {
	case corev1.ClaimLost:
		v := fails(c, "Lost", "its volume %s is lost", c.Spec.VolumeName)
		if _, is := get[*corev1.PersistentVolume](ctx, w, "", c.Spec.VolumeName); is == absent {
			return v.through(lacking[*corev1.PersistentVolume]("", c.Spec.VolumeName, "it does not exist any more"))
		}
		return v
	case corev1.ClaimBound:
		return w.boundClaim(ctx, c)
	}
	if c.Spec.VolumeName != "" {
		return w.wantsVolume(ctx, c)
	}
	class := c.Spec.StorageClassName
	if class == nil || *class == "" {
		return w.noVolumeFits(ctx, c, "")
	}
	s, is := get[*storagev1.StorageClass](ctx, w, "", *class)
	switch {
	case is == absent:
		v := fails(c, "NoStorageClass", "it is not bound: its storage class does not exist")
		return v.through(lacking[*storagev1.StorageClass]("", *class, "it does not exist, and claim %s wants it",
			c.Name))
	case is != present:
		return waits(c, "NotBound", "it is not bound; its storage class %s could not be read", *class).inferred()
	}
	node := c.Annotations["volume.kubernetes.io/selected-node"] // by the scheduler, for a pod
	later := node == "" && s.VolumeBindingMode != nil &&
		*s.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	var user *corev1.Pod
	if later {
		user = w.userOf(ctx, c)
	}
	switch {
	case later && user == nil && w.unlisted(client.KindFor[*corev1.Pod](), c.Namespace):
		return waits(c, "WaitForFirstConsumer", "it is bound when a pod uses it, and pods could not be read").inferred()
	case later && user == nil:
		return waits(c, "WaitForFirstConsumer", "it is bound when a pod uses it, and none does (storage class %s)",
			s.Name).until("a pod uses it")
	case s.Provisioner == noProvisioner:
		return w.noVolumeFits(ctx, c, s.Name)
	case later:
		return waits(c, "WaitForFirstConsumer", "its volume is made when the scheduler has found a node for pod %s",
			user.Name).until("the scheduler finds a node for the pod").through(w.explain(ctx, user))
	}
	return w.notProvisioned(ctx, c, s)
}

// boundClaim is a verdict on a claim that has its volume: it may still grow.
func (w *world) boundClaim(ctx context.Context, c *corev1.PersistentVolumeClaim) *verdict {
	wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	if wants.Cmp(has) <= 0 {
		return fine(c, "it is bound to volume %s", c.Spec.VolumeName)
	}
	v := waits(c, "Resizing", "it is bound, and to grow from %s to %s", has.String(), wants.String())
	for _, cond := range c.Status.Conditions {
		if cond.Status == corev1.ConditionTrue && cond.Message != "" {
			v.says += "; " + cond.Message
		}
	}
	if e := withReason(w.warnings(ctx, c), "VolumeResizeFailed", "FileSystemResizeFailed",
		"ExternalExpanding"); e != nil {
		v.state, v.says = Failing, v.says+"; "+e.Message
	}
	return v
}

// wantsVolume is a verdict on a claim that names its volume.
func (w *world) wantsVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) *verdict {
	name := c.Spec.VolumeName
	v := fails(c, "NotBound", "it is not bound, and wants volume %s", name)
	pv, is := get[*corev1.PersistentVolume](ctx, w, "", name)
	switch {
	case is == absent:
		return v.through(lacking[*corev1.PersistentVolume]("", name, "it does not exist, and claim %s wants it",
			c.Name))
	case is != present:
		return v
	}
	if ref := pv.Spec.ClaimRef; ref != nil && (ref.Name != c.Name || ref.Namespace != c.Namespace) {
		return v.through(fails(pv, "Claimed", "it belongs to claim %s/%s", ref.Namespace, ref.Name))
	}
	if why := misfit(c, pv); why != "" {
		return v.through(fails(pv, "Misfit", "it does not fit claim %s: %s", c.Name, why))
	}
	return waits(c, "NotBound", "it is about to be bound to volume %s", name).through(w.leader(ctx))
}

// noVolumeFits is a verdict on a claim that waits for a volume that somebody has made.
func (w *world) noVolumeFits(ctx context.Context, c *corev1.PersistentVolumeClaim, class string) *verdict {
	what, ends := "it has no storage class, there is no default one",
		"somebody makes a volume that fits, or a default storage class"
	switch {
	case class != "":
		what = fmt.Sprintf("nobody makes volumes of its storage class %s", class)
		ends = "somebody makes a volume that fits"
	case c.Spec.StorageClassName != nil: // a default class is not for it
		what, ends = `its storageClassName is "", so nobody makes a volume for it`, "somebody makes a volume that fits"
	}
	v := fails(c, "NoVolume", "it is not bound: %s, and no volume fits", what).until("%s", ends)
	var best *corev1.PersistentVolume
	reason := ""
	for _, pv := range list[*corev1.PersistentVolume](ctx, w, "", nil) {
		if pv.Status.Phase != corev1.VolumeAvailable || pv.Spec.ClaimRef != nil {
			continue
		}
		if why := misfit(c, pv); best == nil || strings.Count(why, ",") < strings.Count(reason, ",") {
			best, reason = pv, why
		}
	}
	if best != nil && reason != "" {
		v.says += fmt.Sprintf("; volume %s comes nearest: %s", best.Name, reason)
	}
	return v
}

// misfit says why a volume does not fit a claim; empty if it does.
func misfit(c *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	var why []string
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if class != pv.Spec.StorageClassName {
		why = append(why, fmt.Sprintf("its storage class is %q and not %q", pv.Spec.StorageClassName, class))
	}
	wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	if wants.Cmp(has) > 0 {
		why = append(why, fmt.Sprintf("it has %s and not %s", has.String(), wants.String()))
	}
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			why = append(why, fmt.Sprintf("it lacks access mode %s", mode))
		}
	}
	block := func(m *corev1.PersistentVolumeMode) bool { return m != nil && *m == corev1.PersistentVolumeBlock }
	if block(c.Spec.VolumeMode) != block(pv.Spec.VolumeMode) {
		why = append(why, "its volume mode is another one")
	}
	return strings.Join(why, ", ")
}

// notProvisioned is a verdict on a claim whose volume a driver is to make.
func (w *world) notProvisioned(ctx context.Context, c *corev1.PersistentVolumeClaim,
	s *storagev1.StorageClass) *verdict {
	v := waits(c, "Provisioning", "it is not bound: the provisioner makes its volume")
	if e := withReason(w.warnings(ctx, c), "ProvisioningFailed"); e != nil {
		return v.through(fails(s, "ProvisioningFailed", "its provisioner %s fails: %s", s.Provisioner, e.Message))
	}
	silent := fails(s, "NoAnswer", "its provisioner %s has not answered for %s", s.Provisioner,
		w.ago(c.CreationTimestamp))
	if _, is := get[*storagev1.CSIDriver](ctx, w, "", s.Provisioner); is == absent {
		silent.says += ", and no CSIDriver has that name"
	} else if w.now.Sub(c.CreationTimestamp.Time).Seconds() < 10 {
		return v.moves()
	}
	return v.through(silent.inferred().until("the provisioner %s runs", s.Provisioner))
}

// userOf returns a pod that uses a claim; nil if none does.
func (w *world) userOf(ctx context.Context, c *corev1.PersistentVolumeClaim) *corev1.Pod {
	for _, p := range list[*corev1.Pod](ctx, w, c.Namespace, nil) {
		if usesClaim(p, c.Name) {
			return p
		}
	}
	return nil
}

func (w *world) volume(ctx context.Context, pv *corev1.PersistentVolume) *verdict {
	switch pv.Status.Phase {
	case corev1.VolumeFailed:
		return fails(pv, "Failed", "%s", pv.Status.Message)
	case corev1.VolumeReleased:
		ref := pv.Spec.ClaimRef
		v := waits(pv, "Released", "its claim is gone, and it is not free")
		if ref != nil {
			v.says = fmt.Sprintf("its claim %s/%s is gone, and it is not free", ref.Namespace, ref.Name)
		}
		if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			return v.until("somebody deletes it, or removes spec.claimRef: its policy is Retain")
		}
		if e := withReason(w.warnings(ctx, pv), "VolumeFailedDelete"); e != nil {
			v.state, v.says = Failing, v.says+"; "+e.Message
		}
		return v.until("its driver deletes the volume")
	case corev1.VolumePending:
		return waits(pv, "Pending", "no controller has looked at it yet").through(w.leader(ctx))
	}
	return fine(pv, "it is %s", strings.ToLower(string(pv.Status.Phase)))
}
