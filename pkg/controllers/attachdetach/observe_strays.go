package attachdetach

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
)

// strays are the names of VolumeAttachments whose PersistentVolumes do not say what they attach: these are gone, or of other volumes by now. If
// the volume itself has come back under another name, its handle still tells which VolumeAttachments are its own, since they are named after it.
//
// Two volumes are compared for each change, and not all for each reconcile. The indexes of the caches note the changes: they are called before the
// caches show these, so whoever has looked at all that was noted knows no less than the caches do.
type strays struct {
	work sync.Mutex                // held while changes are looked at; never taken under the lock of a cache
	at   map[place]map[string]bool // their names, by where they are
	of   map[string][]stray        // the same, by PersistentVolume

	mu      sync.Mutex
	changed map[string]bool // PersistentVolumes that have changed, or VolumeAttachments of which have
	some    bool            // changed has all; if not, everything is looked at
}

// place is what a stray says of where it is. Of each, a volume has one name.
type place struct{ driver, node string }

// stray is the name of one, and where it is.
type stray struct {
	place
	name string
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
	return a.Name == volumes.AttachmentName(v.Driver, v.Handle, a.Spec.NodeName)
}

// isStray reports whether there is a VolumeAttachment of this controller or a kubelet whose PersistentVolume does not say what it attaches.
func (k *caches) isStray(a *storagev1.VolumeAttachment) bool {
	if a == nil || !ours(a) || a.Spec.Source.PersistentVolumeName == nil {
		return false
	}
	pv := k.volumes.Get("", *a.Spec.Source.PersistentVolumeName)
	return pv == nil || !ofPV(pv).attachedBy(a)
}

// straysOf returns the strays that attach a volume, by name. It costs as much as there are nodes with strays of the driver.
func (k *caches) straysOf(v volume) (all []*storagev1.VolumeAttachment) {
	s := &k.strays
	s.work.Lock()
	defer s.work.Unlock()
	k.followStrays()
	for at, names := range s.at {
		if at.driver != v.Driver {
			continue
		}
		name := volumes.AttachmentName(v.Driver, v.Handle, at.node)
		if !names[name] {
			continue
		}
		if a := k.attachments.Get("", name); k.isStray(a) && v.attachedBy(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// followStrays looks at what was noted. It is called under the lock of the work.
func (k *caches) followStrays() {
	s := &k.strays
	changed, everything := s.noted()
	if everything {
		s.at, s.of, changed = map[place]map[string]bool{}, map[string][]stray{}, map[string]bool{}
		for a := range k.attachments.All() {
			if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
				changed[*pv] = true
			}
		}
	}
	for pv := range changed {
		for _, one := range s.of[pv] {
			if delete(s.at[one.place], one.name); len(s.at[one.place]) == 0 {
				delete(s.at, one.place)
			}
		}
		delete(s.of, pv)
		for _, a := range k.attachments.By(ofVolume + pv) {
			if k.isStray(a) {
				s.add(pv, a)
			}
		}
	}
}

// add notes a stray. It is called under the lock of the work.
func (s *strays) add(pv string, a *storagev1.VolumeAttachment) {
	one := stray{place{a.Spec.Attacher, a.Spec.NodeName}, a.Name}
	if s.at[one.place] == nil {
		s.at[one.place] = map[string]bool{}
	}
	s.at[one.place][one.name] = true
	s.of[pv] = append(s.of[pv], one)
}
