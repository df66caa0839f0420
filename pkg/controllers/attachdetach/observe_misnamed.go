package attachdetach

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
)

// misnamedIndex has the names of VolumeAttachments whose PersistentVolumes do not say what they attach: these are gone,
// or of other volumes by now. If the volume itself has come back under another name, its handle still says which
// VolumeAttachments are its own, since they are named after it.
//
// Two volumes are compared for each change, and not all for each reconcile. The indexes of the caches note the changes:
// they are called before the caches show these, so whoever has looked at all that was noted knows no less than the
// caches do.
type misnamedIndex struct {
	work     sync.Mutex                       // held while changes are looked at; never taken under the lock of a cache
	byPlace  map[driverOnNode]map[string]bool // their names, by where they are
	byVolume map[string][]misnamedAttachment  // the same, by PersistentVolume

	mu       sync.Mutex
	changed  map[string]bool // PersistentVolumes that have changed, or VolumeAttachments of which have
	complete bool            // changed has all; if not, everything is looked at
}

// driverOnNode is the driver and the node of a VolumeAttachment. For each of these pairs, a volume has one name.
type driverOnNode struct{ driver, node string }

// misnamedAttachment is the name of a VolumeAttachment, with its driver and node.
type misnamedAttachment struct {
	driverOnNode
	name string
}

// maxChanged bounds what is noted while nobody looks at it, as in a process that does not lead.
const maxChanged = 10_000

func (s *misnamedIndex) markChanged(pv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.complete:
	case len(s.changed) >= maxChanged:
		s.changed, s.complete = nil, false
	default:
		s.changed[pv] = true
	}
}

// takeChanged returns the PersistentVolumes that were noted since it was last called, or that all are to be looked at.
func (s *misnamedIndex) takeChanged() (changed map[string]bool, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, all = s.changed, !s.complete
	s.changed, s.complete = map[string]bool{}, true
	return changed, all
}

func (s *misnamedIndex) indexVolume(pv *corev1.PersistentVolume) []string {
	s.markChanged(pv.Name)
	return indexVolume(pv)
}

func (s *misnamedIndex) indexAttachment(a *storagev1.VolumeAttachment) []string {
	if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
		s.markChanged(*pv)
	}
	return indexAttachment(a)
}

// attachedBy reports whether a VolumeAttachment has the name of one of this volume.
func (v volume) attachedBy(a *storagev1.VolumeAttachment) bool {
	return a.Name == volumes.AttachmentName(v.Driver, v.Handle, a.Spec.NodeName)
}

// isMisnamed reports whether there is a VolumeAttachment of this controller or a kubelet whose PersistentVolume does
// not say what it attaches.
func (k *volumeView) isMisnamed(a *storagev1.VolumeAttachment) bool {
	if a == nil || !ours(a) || a.Spec.Source.PersistentVolumeName == nil {
		return false
	}
	pv := k.pvs.Get("", *a.Spec.Source.PersistentVolumeName)
	return pv == nil || !ofPV(pv).attachedBy(a)
}

// misnamedOf returns the misnamed VolumeAttachments that attach a volume, by name. It costs as much as there are nodes
// with some of the driver.
func (k *volumeView) misnamedOf(v volume) (all []*storagev1.VolumeAttachment) {
	s := &k.misnamed
	s.work.Lock()
	defer s.work.Unlock()
	k.updateMisnamed()
	for at, names := range s.byPlace {
		if at.driver != v.Driver {
			continue
		}
		name := volumes.AttachmentName(v.Driver, v.Handle, at.node)
		if !names[name] {
			continue
		}
		if a := k.attachments.Get("", name); k.isMisnamed(a) && v.attachedBy(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// updateMisnamed looks at what was noted. It is called under the lock of the work.
func (k *volumeView) updateMisnamed() {
	s := &k.misnamed
	changed, everything := s.takeChanged()
	if everything {
		s.byPlace, s.byVolume = map[driverOnNode]map[string]bool{}, map[string][]misnamedAttachment{}
		changed = map[string]bool{}
		for a := range k.attachments.All() {
			if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
				changed[*pv] = true
			}
		}
	}
	for pv := range changed {
		for _, one := range s.byVolume[pv] {
			if delete(s.byPlace[one.driverOnNode], one.name); len(s.byPlace[one.driverOnNode]) == 0 {
				delete(s.byPlace, one.driverOnNode)
			}
		}
		delete(s.byVolume, pv)
		for _, a := range k.attachments.By(byVolume + pv) {
			if k.isMisnamed(a) {
				s.add(pv, a)
			}
		}
	}
}

// add notes a misnamed VolumeAttachment. It is called under the lock of the work.
func (s *misnamedIndex) add(pv string, a *storagev1.VolumeAttachment) {
	one := misnamedAttachment{driverOnNode{a.Spec.Attacher, a.Spec.NodeName}, a.Name}
	if s.byPlace[one.driverOnNode] == nil {
		s.byPlace[one.driverOnNode] = map[string]bool{}
	}
	s.byPlace[one.driverOnNode][one.name] = true
	s.byVolume[pv] = append(s.byVolume[pv], one)
}
