package attachdetach

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// attachable reports whether the driver of a volume attaches volumes at all (AD-11).
func (k *volumeView) attachable(v volume) bool {
	if v.Driver == "" {
		return v.Name != ""
	}
	if d := k.drivers.Get("", v.Driver); d != nil {
		return attaches(d)
	}
	t, _ := k.term.Get()
	return t.Absences.attaches(time.Now(), v.Driver)
}

// volumeOfClaim returns the volume that a claim stands for, with its name empty if nodes do not attach it. If ok is
// false, the claim is not bound, so that nobody can know (AD-14).
func (k *volumeView) volumeOfClaim(namespace, claim string) (v volume, ok bool) {
	c := k.claims.Get(namespace, claim)
	if c == nil || c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" {
		return volume{}, false
	}
	pv := k.pvs.Get("", c.Spec.VolumeName)
	if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != c.UID {
		return volume{}, false
	}
	if v = ofPV(pv); !k.attachable(v) {
		return volume{}, true
	}
	return v, true
}

// volumesOf returns the volumes of a pod that nodes attach.
func (k *podView) volumesOf(p *corev1.Pod) []volume {
	all, _ := k.resolve(p)
	return all
}

// resolve is volumesOf, and reports whether all claims of the pod are bound: if so, the pod uses no other volumes.
func (k *podView) resolve(p *corev1.Pod) (all []volume, ok bool) {
	ok = true
	inline := k.inline.of(p)
	for i := range p.Spec.Volumes {
		v, known := inline.all[i], true
		if name, ok := podutil.ClaimOf(p, &p.Spec.Volumes[i]); ok {
			v, known = k.volumeOfPodClaim(p, &p.Spec.Volumes[i], name)
		} else if !k.volumes.attachable(v) {
			v = volume{}
		}
		if ok = ok && known; v.Name != "" {
			all = append(all, v)
		}
	}
	return all, ok
}

// volumeOfPodClaim is volumeOfClaim for a claim that a volume of a pod names.
func (k *podView) volumeOfPodClaim(p *corev1.Pod, of *corev1.Volume, name string) (v volume, ok bool) {
	if of.PersistentVolumeClaim == nil {
		if c := k.volumes.claims.Get(p.Namespace, name); c == nil || !metav1.IsControlledBy(c, p) {
			return volume{}, false
		}
	}
	return k.volumes.volumeOfClaim(p.Namespace, name)
}

// unclearPods are pods on a node of which a claim is no longer bound, so that one of their volumes is not known: one of
// each namespace. A kubelet mounts nothing for a pod with a claim that is not bound, so a pod that has never run uses
// nothing.
func (k *podView) unclearPods(node string) map[string]string {
	unclear := map[string]string{}
	for _, p := range k.byNode.OnNode(node) {
		if !needs(p) || !hasRun(p) {
			continue
		}
		before, known := unclear[p.Namespace]
		if _, ok := k.resolve(p); !ok && (!known || podName(p) < before) {
			unclear[p.Namespace] = podName(p)
		}
	}
	return unclear
}

// unclearUser returns the one of unclear pods that may use a volume; empty if none may. A pod uses the volumes of
// claims of its own namespace, so that one tenant keeps no volume of another one on a node. Any may use a volume of
// which the claim is not known.
func (k *podView) unclearUser(unclear map[string]string, volume string) string {
	if len(unclear) == 0 {
		return ""
	}
	pvs := k.volumes.pvs.By(byName + volume)
	if len(pvs) == 0 || slices.ContainsFunc(pvs, func(pv *corev1.PersistentVolume) bool {
		return pv.Spec.ClaimRef == nil
	}) {
		return slices.Min(slices.Collect(maps.Values(unclear)))
	}
	for _, pv := range pvs {
		if pod := unclear[pv.Spec.ClaimRef.Namespace]; pod != "" {
			return pod
		}
	}
	return ""
}

// withUnclear returns volumes of a node with the pods that may use them.
func (k *podView) withUnclear(node string, all []nodeVolume) []nodeVolume {
	unclear := k.unclearPods(node)
	all = slices.Clone(all)
	for i := range all {
		all[i].Unclear = k.unclearUser(unclear, all[i].Name)
	}
	return all
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
