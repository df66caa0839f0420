package attachdetach

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var driverKind = client.MappingFor[*storagev1.CSIDriver]()

// attachesNothing is the CSIDriver of a driver that attaches nothing.
func attachesNothing() *storagev1.CSIDriver {
	no := false
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}}
}

// mounted puts n volumes for many nodes, with pods that run with them.
func mounted(b *bench, n int) {
	for i := range n {
		name := fmt.Sprint("p-", i)
		b.disk(i, corev1.ReadWriteMany)
		b.pod(name, i, fmt.Sprint("n", i%6))
		p := &corev1.Pod{}
		if err := b.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: name}, p); err != nil {
			b.Fatal(err)
		}
		p.Status.Phase = corev1.PodRunning
		b.put(p)
	}
}

func (b *bench) wantAttachments(when string, want int) {
	b.Helper()
	if n := b.CountWrites("create VolumeAttachment"); n != want {
		b.Errorf("%s: %d VolumeAttachments were created, want %d", when, n, want)
	}
}

// meanwhile does something a while after the next term has begun.
func (b *bench) meanwhile(after time.Duration, what func()) {
	b.before = func() {
		b.before = nil
		b.work.Go(func() {
			time.Sleep(after)
			what()
		})
	}
}

// A driver that attaches nothing is installed anew, while this process leads or another one begins to: its volumes get no
// VolumeAttachments. If it stays away, they do (AD-11).
func TestDriverInstalledAnew(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		b.put(attachesNothing())
		time.Sleep(time.Minute)
		mounted(b, 20)
		time.Sleep(time.Minute)
		b.remove(driverKind, "", driver)
		time.Sleep(20 * time.Second)
		b.pod("late", 0, "n5") // its volume was attached nowhere
		time.Sleep(5 * time.Second)
		b.put(attachesNothing())
		time.Sleep(time.Minute)
		b.wantAttachments("it is back", 0)
		b.remove(driverKind, "", driver)
		b.meanwhile(20*time.Second, func() { b.put(attachesNothing()) })
	}, func(b *bench) {
		b.wantAttachments("another process leads, and it is back", 0)
		b.remove(driverKind, "", driver)
		time.Sleep(20 * time.Second)
		b.pod("later", 1, "n5")
		time.Sleep(25 * time.Second)
		b.wantAttachments("it stays away", 22)
	})
}

// A driver that has no CSIDriver attaches its volumes, also when a term begins: nothing shows that it does not.
func TestDriverWithoutCSIDriver(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		b.meanwhile(time.Second, func() {
			b.disk(1)
			b.pod("b", 1, "n1")
			time.Sleep(time.Second)
			b.is("d0:n0 d1:n1 n0=d0 n1=d1")
		})
	}, func(*bench) {})
	run(t, Options{}, 6, func(b *bench) { // pods run without any VolumeAttachment, which shows
		b.put(attachesNothing())
		mounted(b, 6)
		time.Sleep(time.Minute)
		b.remove(driverKind, "", driver)
		b.meanwhile(25*time.Second, func() { b.wantAttachments("at first", 0) })
	}, func(b *bench) {
		b.wantAttachments("later", 6)
	})
}
