package attachdetach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
)

// diskOf is the source of the disk d<i>, for a PersistentVolume of any name.
func diskOf(i int) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprint("d", i)}}
}

// A disk that comes back as another PersistentVolume is not attached to a second node while a VolumeAttachment that names the old one
// is left (AD-70), also if the old name belongs to another disk by now; and what is needed there keeps it.
func TestADiskComesBackUnderAnotherName(t *testing.T) {
	for _, reused := range []bool{false, true} {
		t.Run(fmt.Sprintf("the old name is reused: %t", reused), func(t *testing.T) {
			run(t, Options{}, 3, func(b *bench) {
				b.disk(0)
				b.pod("a", 0, "n0")
				time.Sleep(time.Second)
				b.uses("n0", 0)
				b.node("n0", unready)
				b.removePod("a")
				b.remove(claimKind, "shop", "d0")
				if b.remove(volumeKind, "", "d0"); reused {
					b.volume(0, diskOf(7), corev1.ReadWriteOnce)
				}
				b.volume(1, diskOf(0), corev1.ReadWriteOnce)
				b.pod("b", 1, "n1")
				time.Sleep(5 * time.Minute)
				b.is("d0:n0 n0=d0")
				b.pod("c", 1, "n0")
				time.Sleep(5 * time.Minute)
				b.is("d0:n0 n0=d0")
				b.removePod("c")
				time.Sleep(7 * time.Minute)
				b.is("d1:n1 n1=d0")
			})
		})
	}
}

// The same while the driver detaches it, when no node says any more that it has the disk (AD-87).
func TestADiskComesBackWhileItIsDetached(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.stuck.Store(true)
		b.removePod("a")
		time.Sleep(time.Second)
		b.is("d0:n0!")
		b.remove(claimKind, "shop", "d0")
		b.remove(volumeKind, "", "d0")
		b.volume(1, diskOf(0), corev1.ReadWriteOnce)
		b.pod("b", 1, "n1")
		time.Sleep(time.Hour)
		b.is("d0:n0!")
		b.stuck.Store(false)
		time.Sleep(15 * time.Second)
		b.is("d1:n1 n1=d0")
	})
}

// A VolumeAttachment that names the old PersistentVolume serves the pods of the new one on its node, also of one for many nodes.
func TestADiskIsNeededUnderAnotherName(t *testing.T) {
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany} {
		t.Run(string(mode), func(t *testing.T) { testADiskIsNeededUnderAnotherName(t, mode) })
	}
}

func testADiskIsNeededUnderAnotherName(t *testing.T, mode corev1.PersistentVolumeAccessMode) {
	run(t, Options{}, 3, func(b *bench) {
		b.stuck.Store(true)
		b.disk(0, mode)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.volume(1, diskOf(0), mode)
		b.pod("b", 1, "n0")
		time.Sleep(time.Second)
		b.removePod("a")
		b.remove(claimKind, "shop", "d0")
		b.remove(volumeKind, "", "d0")
		time.Sleep(10 * time.Second)
		b.is("d0:n0")
		if n := len(slices.DeleteFunc(b.Writes(),
			func(w clienttest.Write) bool { return w.Kind != attachmentKind.Kind || w.Verb != "create" })); n != 1 {
			b.Errorf("%d VolumeAttachments were created", n)
		}
		b.stuck.Store(false)
		time.Sleep(2 * time.Second)
		b.is("d0:n0 n0=d0")
	})
}
