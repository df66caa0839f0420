package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// inline are the volumes that stand in a pod.
type inline struct {
	all    []volume          // of each volume of the pod; no name: it stands elsewhere, or nodes attach none such
	byName map[string]volume // the first of each name
}

// inlines works out what stands in pods. A pod may have thousands of volumes, and each of them is a key whose pods are
// looked at: what stands in the pod that was asked for last is remembered.
type inlines struct {
	reconcile.Memo[podVersion, inline]
}

// podVersion is a version of a pod.
type podVersion struct {
	uid     types.UID
	version string
}

func (m *inlines) of(p *corev1.Pod) inline {
	if p.UID == "" || p.ResourceVersion == "" {
		return inlineOf(p)
	}
	return m.Of(podVersion{p.UID, p.ResourceVersion}, func() inline { return inlineOf(p) })
}

// forget drops what is remembered of a pod that is gone.
func (m *inlines) forget(uid types.UID) {
	m.Forget(func(v podVersion) bool { return v.uid == uid })
}

func inlineOf(p *corev1.Pod) inline {
	found := inline{make([]volume, len(p.Spec.Volumes)), map[string]volume{}}
	for i := range p.Spec.Volumes {
		v := ofPodVolume(&p.Spec.Volumes[i].VolumeSource, p.Namespace)
		if found.all[i] = v; v.Name == "" {
			continue
		}
		if _, known := found.byName[v.Name]; !known {
			found.byName[v.Name] = v
		}
	}
	return found
}
