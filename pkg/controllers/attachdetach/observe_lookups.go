package attachdetach

import (
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

// podWithUnboundClaim names a pod on a node of which a claim is no longer bound, so that one of its volumes is not
// known; empty if there is none. A kubelet mounts nothing for a pod with a claim that is not bound, so a pod that has
// never run uses nothing.
func (k *podView) podWithUnboundClaim(node string) (name string) {
	for _, p := range k.byNode.OnNode(node) {
		if !needs(p) || !hasRun(p) {
			continue
		}
		if _, ok := k.resolve(p); !ok && (name == "" || podName(p) < name) {
			name = podName(p)
		}
	}
	return name
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
