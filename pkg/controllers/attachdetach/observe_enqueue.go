package attachdetach

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// typed returns both sides of a change, nil for one that there is not.
func typed[T plan.Object](before, after plan.Object) (was, is T) {
	was, _ = before.(T)
	is, _ = after.(T)
	return was, is
}

// present returns those of the sides of a change that there are.
func present[T any](sides ...*T) []*T {
	return slices.DeleteFunc(sides, func(o *T) bool { return o == nil })
}

// movedPods returns the sides of a change of a pod by which nodes need other volumes than before (AD-16).
func movedPods(before, after plan.Object) []*corev1.Pod {
	was, is := typed[*corev1.Pod](before, after)
	if was != nil && is != nil && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName &&
		needs(was) == needs(is) &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		return nil
	}
	return slices.DeleteFunc(present(was, is), func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || len(p.Spec.Volumes) == 0
	})
}

func (k *volumeController) volumesByPod(before, after plan.Object) (keys []plan.Key) {
	if after == nil {
		defer k.pods.inline.forget(before.GetUID())
	}
	for _, p := range movedPods(before, after) {
		keys = k.pods.appendVolumes(keys, p)
	}
	return keys
}

func (k *podView) appendVolumes(keys []plan.Key, p *corev1.Pod) []plan.Key {
	for _, v := range k.volumesOf(p) {
		keys = append(keys, plan.Key{Name: v.Name})
	}
	return keys
}

func (k *nodeController) nodesByPod(before, after plan.Object) (keys []plan.Key) {
	for _, p := range movedPods(before, after) {
		keys = append(keys, plan.Key{Name: p.Spec.NodeName})
	}
	return keys
}

// reboundVolumes returns the PersistentVolumes of a claim whose binding has changed.
func (k *volumeView) reboundVolumes(before, after plan.Object) (volumes []*corev1.PersistentVolume) {
	was, is := typed[*corev1.PersistentVolumeClaim](before, after)
	if was != nil && is != nil && was.UID == is.UID && was.Spec.VolumeName == is.Spec.VolumeName &&
		was.Status.Phase == is.Status.Phase {
		return nil
	}
	for _, c := range present(was, is) {
		if pv := k.pvs.Get("", c.Spec.VolumeName); pv != nil {
			volumes = append(volumes, pv)
		}
	}
	return volumes
}

func (k *volumeController) volumesByClaim(before, after plan.Object) (keys []plan.Key) {
	for _, pv := range k.volumes.reboundVolumes(before, after) {
		keys = append(keys, plan.Key{Name: ofPV(pv).Name})
	}
	return withName(keys)
}

func (k *nodeController) nodesByClaim(before, after plan.Object) (keys []plan.Key) {
	for _, pv := range k.volumes.reboundVolumes(before, after) {
		keys = k.pods.appendNodes(keys, pv)
	}
	return keys
}

// appendNodes adds the nodes of pods that name the claim of a PersistentVolume, and of its VolumeAttachments.
func (k *podView) appendNodes(keys []plan.Key, pv *corev1.PersistentVolume) []plan.Key {
	if ref := pv.Spec.ClaimRef; ref != nil {
		for _, p := range k.byClaim.Naming(ref.Namespace, ref.Name) {
			keys = append(keys, plan.Key{Name: p.Spec.NodeName})
		}
	}
	for _, a := range k.volumes.attachments.By(byVolume + pv.Name) {
		keys = append(keys, plan.Key{Name: a.Spec.NodeName})
	}
	return withName(keys)
}

func withName(keys []plan.Key) []plan.Key {
	return slices.DeleteFunc(keys, func(k plan.Key) bool { return k.Name == "" })
}

// redefined returns the sides of a change of a PersistentVolume that is another one for nodes.
func redefined(before, after plan.Object) []*corev1.PersistentVolume {
	was, is := typed[*corev1.PersistentVolume](before, after)
	if was != nil && is != nil && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return nil
	}
	return present(was, is)
}

func (k *volumeController) volumesByVolume(before, after plan.Object) (keys []plan.Key) {
	for _, pv := range redefined(before, after) {
		keys = append(keys, plan.Key{Name: ofPV(pv).Name})
	}
	return withName(keys)
}

func (k *nodeController) nodesByVolume(before, after plan.Object) (keys []plan.Key) {
	for _, pv := range redefined(before, after) {
		keys = k.pods.appendNodes(keys, pv)
	}
	return keys
}

func (k *volumeController) volumesByAttachment(before, after plan.Object) (keys []plan.Key) {
	was, is := typed[*storagev1.VolumeAttachment](before, after)
	for _, a := range present(is, was)[:1] {
		switch s := a.Spec.Source; {
		case s.InlineVolumeSpec != nil:
			keys = append(keys, plan.Key{Name: ofSpec(s.InlineVolumeSpec).Name})
		case s.PersistentVolumeName != nil:
			if pv := k.volumes.pvs.Get("", *s.PersistentVolumeName); pv != nil {
				keys = append(keys, plan.Key{Name: ofPV(pv).Name})
			}
		}
	}
	return withName(keys)
}

func nodesByAttachment(before, after plan.Object) []plan.Key {
	was, is := typed[*storagev1.VolumeAttachment](before, after)
	return withName([]plan.Key{{Name: present(is, was)[0].Spec.NodeName}})
}

// volumesByNode returns the volumes of a node that this controller begins or ends to manage, and the status-only
// volumes that a node begins or ends to list.
func (k *volumeController) volumesByNode(before, after plan.Object) (keys []plan.Key) {
	was, is := typed[*corev1.Node](before, after)
	for name := range statusOnlyChanges(was, is) {
		keys = append(keys, plan.Key{Name: name})
	}
	if (was != nil && managed(was)) == (is != nil && managed(is)) {
		return keys
	}
	for _, p := range k.pods.byNode.OnNode(present(is, was)[0].Name) {
		if len(p.Spec.Volumes) > 0 {
			keys = k.pods.appendVolumes(keys, p)
		}
	}
	return keys
}

// statusOnlyChanges returns the status-only volumes that one side of a change of a node lists, and the other one does
// not.
func statusOnlyChanges(was, is *corev1.Node) map[string]bool {
	if was != nil && is != nil && slices.Equal(was.Status.VolumesAttached, is.Status.VolumesAttached) {
		return nil
	}
	listed := map[string]int{}
	for _, n := range present(was, is) {
		for _, a := range n.Status.VolumesAttached {
			if name := string(a.Name); strings.HasPrefix(name, volumes.ISCSIPrefix) ||
				strings.HasPrefix(name, volumes.FCPrefix) {
				listed[name]++
			}
		}
	}
	changed := map[string]bool{}
	for name, sides := range listed {
		if sides == 1 {
			changed[name] = true
		}
	}
	return changed
}

// nodesByNode leaves out changes of a node that concern no volume.
func nodesByNode(before, after plan.Object) []plan.Key {
	was, is := typed[*corev1.Node](before, after)
	if was != nil && is != nil && was.UID == is.UID && managed(was) == managed(is) &&
		nodes.OutOfService(was) == nodes.OutOfService(is) &&
		nodes.Ready(was) == nodes.Ready(is) && slices.Equal(was.Status.VolumesInUse, is.Status.VolumesInUse) &&
		slices.Equal(was.Status.VolumesAttached, is.Status.VolumesAttached) {
		return nil
	}
	return []plan.Key{{Name: present(is, was)[0].Name}}
}

// changedDriver returns the driver of a CSIDriver, if it has changed whether it attaches volumes; empty if not. That it
// is gone counts only after a while.
func changedDriver(before, after plan.Object) string {
	was, is := typed[*storagev1.CSIDriver](before, after)
	name := present(is, was)[0].Name
	if is == nil || attaches(is) == (was == nil || attaches(was)) {
		return ""
	}
	return name
}

func (k *volumeController) volumesByDriver(before, after plan.Object) []plan.Key {
	return k.pods.volumesOfDriver(changedDriver(before, after))
}

func (k *nodeController) nodesByDriver(before, after plan.Object) []plan.Key {
	return k.pods.nodesOfDriver(changedDriver(before, after))
}

// volumesOfDriver returns the volumes of a driver, also those that stand in pods.
func (k *podView) volumesOfDriver(name string) (keys []plan.Key) {
	if name == "" {
		return nil
	}
	for _, pv := range k.volumes.pvs.By(byDriver + name) {
		keys = append(keys, plan.Key{Name: ofPV(pv).Name})
	}
	for _, p := range k.byVolume.By(byDriver + name) {
		for i := range p.Spec.Volumes {
			keys = append(keys, plan.Key{Name: ofPodVolume(&p.Spec.Volumes[i].VolumeSource, p.Namespace).Name})
		}
	}
	return withName(keys)
}

// nodesOfDriver returns the nodes of pods with volumes of a driver, and of its VolumeAttachments.
func (k *podView) nodesOfDriver(name string) (keys []plan.Key) {
	if name == "" {
		return nil
	}
	for _, pv := range k.volumes.pvs.By(byDriver + name) {
		keys = k.appendNodes(keys, pv)
	}
	for _, p := range k.byVolume.By(byDriver + name) {
		keys = append(keys, plan.Key{Name: p.Spec.NodeName})
	}
	return keys
}
