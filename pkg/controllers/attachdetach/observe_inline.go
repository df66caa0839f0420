package attachdetach

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// inline are the volumes that stand in a pod.
type inline struct {
	all    []volume          // of each volume of the pod; one without a name stands elsewhere, or is none that nodes attach
	byName map[string]volume // the first of each name
}

// inlines works out what stands in pods. A pod may have thousands of volumes, and each of them is a key whose pods are looked at: what
// stands in the pod that was asked for last is remembered.
type inlines struct {
	mu      sync.Mutex
	uid     types.UID
	version string
	last    inline
}

func (m *inlines) of(p *corev1.Pod) inline {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uid == p.UID && m.version == p.ResourceVersion && len(m.last.all) == len(p.Spec.Volumes) && p.UID != "" && p.ResourceVersion != "" {
		return m.last
	}
	m.uid, m.version = p.UID, p.ResourceVersion
	m.last = inline{make([]volume, len(p.Spec.Volumes)), map[string]volume{}}
	for i := range p.Spec.Volumes {
		v := ofPodVolume(&p.Spec.Volumes[i].VolumeSource, p.Namespace)
		if m.last.all[i] = v; v.Name == "" {
			continue
		}
		if _, known := m.last.byName[v.Name]; !known {
			m.last.byName[v.Name] = v
		}
	}
	return m.last
}

// forget drops what is remembered of a pod that is gone.
func (m *inlines) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uid == uid {
		m.uid, m.version, m.last = "", "", inline{}
	}
}
