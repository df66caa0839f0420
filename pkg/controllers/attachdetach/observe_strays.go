package attachdetach

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// strays are the names of VolumeAttachments whose PersistentVolumes do not say what they attach: these are gone, or of other volumes by now. If
// the volume itself has come back under another name, its handle still tells which VolumeAttachments are its own, since they are named after it.
//
// Two volumes are compared for each change, and not all for each reconcile. The indexes of the caches note the changes: they are called before the
// caches show these, so whoever has looked at all that was noted knows no less than the caches do.
type strays struct {
	work  sync.Mutex // held while changes are looked at; never taken under the lock of a cache
	names map[string]bool

	mu      sync.Mutex
	changed map[string]bool // PersistentVolumes that have changed, or VolumeAttachments of which have
	some    bool            // changed has all; if not, everything is looked at
}

// mostChanged bounds what is noted while nobody looks at it, as in a process that does not lead.
const mostChanged = 10_000

func (s *strays) note(pv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.some:
	case len(s.changed) >= mostChanged:
		s.changed, s.some = nil, false
	default:
		s.changed[pv] = true
	}
}

// noted returns the PersistentVolumes that were noted since it was last called, or that all are to be looked at.
func (s *strays) noted() (changed map[string]bool, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, all = s.changed, !s.some
	s.changed, s.some = map[string]bool{}, true
	return changed, all
}

func (s *strays) indexVolume(pv *corev1.PersistentVolume) []string {
	s.note(pv.Name)
	return indexVolume(pv)
}

func (s *strays) indexAttachment(a *storagev1.VolumeAttachment) []string {
	if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
		s.note(*pv)
	}
	return indexAttachment(a)
}

// attachedBy reports whether a VolumeAttachment has the name of one of this volume.
func (v volume) attachedBy(a *storagev1.VolumeAttachment) bool {
	return a.Name == attachment(v.Driver, v.Handle, a.Spec.NodeName)
}

// isStray reports whether there is a VolumeAttachment of this controller or a kubelet whose PersistentVolume does not say what it attaches.
func (k *caches) isStray(a *storagev1.VolumeAttachment) bool {
	if a == nil || !ours(a) || a.Spec.Source.PersistentVolumeName == nil {
		return false
	}
	pv := k.volumes.Get("", *a.Spec.Source.PersistentVolumeName)
	return pv == nil || !ofPV(pv).attachedBy(a)
}

// straysOf returns the strays that attach a volume, by name.
func (k *caches) straysOf(v volume) (all []*storagev1.VolumeAttachment) {
	s := &k.strays
	s.work.Lock()
	defer s.work.Unlock()
	changed, everything := s.noted()
	if everything {
		s.names = map[string]bool{}
		for a := range k.attachments.All() {
			s.names[a.Name] = true
		}
	}
	for pv := range changed {
		for _, a := range k.attachments.By(ofVolume + pv) {
			s.names[a.Name] = true
		}
	}
	for name := range s.names {
		a := k.attachments.Get("", name)
		if !k.isStray(a) {
			delete(s.names, name) // until a change is noted
			continue
		}
		if v.attachedBy(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	return all
}
