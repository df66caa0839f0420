package attachdetach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A node that is not ready keeps what it uses for six minutes (AD-34); one that is out of service does not (AD-35, AD-61); a healthy
// one keeps it for ever (AD-37).
func TestForce(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		edit func(*corev1.Node)
		kept time.Duration
	}{
		{"healthy", Options{}, func(*corev1.Node) {}, 24 * time.Hour},
		{"not ready", Options{}, unready, 6 * time.Minute},
		{"not ready, and that does not count", Options{DisableForceDetachOnTimeout: true}, unready, 24 * time.Hour},
		{"out of service", Options{}, outOfServiceTaint, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, c.o, 3, func(b *bench) {
				b.disk(0)
				b.pod("a", 0, "n0")
				time.Sleep(time.Second)
				b.uses("n0", 0)
				b.node("n0", c.edit)
				b.removePod("a")
				time.Sleep(c.kept - time.Second)
				if c.kept > 0 {
					b.is("d0:n0 n0=d0")
				}
				if time.Sleep(5 * time.Second); c.kept < time.Hour {
					b.is("")
				}
			})
		})
	}
}

// fail has the first nodes be no longer ready, each with a volume in use that no pod needs any more.
func (b *bench) fail(nodes int) {
	b.Helper()
	for i := range nodes {
		b.disk(i)
		b.pod(fmt.Sprint("p", i), i, fmt.Sprint("n", i))
	}
	time.Sleep(time.Second)
	for i := range nodes {
		b.uses(fmt.Sprint("n", i), i)
		b.dies(fmt.Sprint("n", i))
		b.removePod(fmt.Sprint("p", i))
	}
}

// When most nodes cease to be ready, no volume is detached by force for a while, and people are told.
func TestTheBrake(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		b.fail(4)
		time.Sleep(8 * time.Minute)
		b.is("d0:n0 d1:n1 d2:n2 d3:n3 n0=d0 n1=d1 n2=d2 n3=d3")
		if held := b.brake.Holds(time.Now()); len(held) != 1 || held[0].What != whatIsHeld ||
			!strings.Contains(held[0].Why, "4 of 6 nodes are not ready") {
			b.Errorf("%+v", held)
		}
		b.node("n3", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		time.Sleep(time.Minute)
		b.is("d3:n3 n3=d3")
		if held := b.brake.Holds(time.Now()); len(held) != 0 {
			b.Errorf("%+v", held)
		}
	})
}

// A brake lets go when nothing is left of what it holds: the nodes are gone, and somebody has removed their VolumeAttachments.
func TestABrakeHoldsWhatVanishes(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		b.fail(4)
		time.Sleep(8 * time.Minute)
		if held := b.brake.Holds(time.Now()); len(held) != 1 {
			b.Errorf("%+v", held)
		}
		b.brake.Events(time.Now()) // people are told
		for i := range 4 {
			b.remove(nodeKind, "", fmt.Sprint("n", i))
			b.remove(attachmentKind, "", volumes.AttachmentName(driver, fmt.Sprint("d", i), fmt.Sprint("n", i)))
		}
		time.Sleep(time.Minute)
		if held := b.brake.Holds(time.Now()); len(held) != 0 {
			b.Errorf("%+v", held)
		}
		if _, ended := b.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.NothingLeft {
			b.Errorf("%+v", ended)
		}
		before := b.brake
		b.before = func() {
			if held := before.Holds(time.Now()); len(held) != 0 {
				b.Errorf("after the term: %+v", held)
			}
		}
		for i := range 4 {
			n := aNode()
			n.Name, n.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("uid-again-", i))
			b.put(n)
		}
		b.fail(4)
		time.Sleep(8 * time.Minute)
		if held := b.brake.Holds(time.Now()); len(held) != 1 {
			b.Errorf("%+v", held)
		}
	}, func(*bench) {})
}

// VolumeAttachments that others have made, to what may be no nodes at all, are no nodes that are gone.
func TestTheBrakeDoesNotCountWhatOthersHaveMade(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		for i := range 20 {
			b.put(anAttachment(fmt.Sprint("d", i), fmt.Sprint("elsewhere-", i),
				func(a *storagev1.VolumeAttachment) { a.Name = fmt.Sprint("mine-", i) }))
		}
		b.fail(2)
		time.Sleep(7 * time.Minute)
		if held := b.brake.Holds(time.Now()); len(held) != 0 {
			b.Errorf("%+v", held)
		}
	})
}

// The brake holds, too, what the cache shows of a node that is ready, if the node read live is not (S1).
func TestTheBrakeLooksAtWhatIsReadLive(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.uses("n0", 0)
		b.removePod("a")
		time.Sleep(time.Hour)
		for i := 1; i < 5; i++ {
			b.dies(fmt.Sprint("n", i))
		}
		b.down.Store(true)
		b.uses("n0") // so that it is read
		time.Sleep(time.Second)
		b.FreezeWatches(nodeKind.GroupVersionKind)
		b.uses("n0", 0)
		b.dies("n0")
		b.down.Store(false)
		time.Sleep(time.Minute)
		b.is("d0:n0")
		b.ResumeWatches(nodeKind.GroupVersionKind)
		time.Sleep(time.Minute)
		b.is("d0:n0 n0=d0")
	})
}

// An operator releases the brake.
func TestTheBrakeIsReleased(t *testing.T) {
	run(t, Options{}, 5, func(b *bench) {
		b.fail(5)
		time.Sleep(8 * time.Minute)
		b.is("d0:n0 d1:n1 d2:n2 d3:n3 d4:n4 n0=d0 n1=d1 n2=d2 n3=d3 n4=d4")
		b.brake.SetReleased(true)
		time.Sleep(time.Minute)
		b.is("")
	})
}

// The VolumeAttachments of a node that is gone are detached a minute after the pods there have had time to end (AD-62, AD-71, AD-93).
func TestANodeVanishes(t *testing.T) {
	run(t, Options{DisableForceDetachOnTimeout: true}, 3, func(b *bench) {
		b.disk(0)
		b.disk(1)
		b.pod("a", 0, "n0")
		b.pod("b", 1, "n0")
		time.Sleep(time.Second)
		b.uses("n0", 0, 1)
		b.remove(nodeKind, "", "n0")
		b.removePod("a")
		time.Sleep(80 * time.Second)
		b.is("d0:n0 d1:n0")
		time.Sleep(20 * time.Second)
		b.is("d1:n0")
		time.Sleep(time.Hour)
		b.is("d1:n0")
		b.removePod("b")
		time.Sleep(80 * time.Second)
		b.is("d1:n0")
		time.Sleep(20 * time.Second)
		b.is("")
	})
}

// A Node that is made anew has not said yet what its machine uses: that has the minute of one that is gone (AD-62).
func TestANodeIsMadeAnew(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(2 * time.Second)
		b.uses("n0", 0)
		b.remove(nodeKind, "", "n0")
		b.removePod("a")
		time.Sleep(10 * time.Second)
		b.makeAnew("n0")
		time.Sleep(50 * time.Second)
		b.is("d0:n0")
		b.uses("n0", 0)
		time.Sleep(time.Hour)
		b.is("d0:n0 n0=d0")
		b.uses("n0")
		time.Sleep(2 * time.Second)
		b.is("")
	})
}

// AD-18: no timer takes a volume from a node that is not ready while a pod there may use it, of which nobody knows, as a claim is not
// bound any more.
func TestClaimsThatAreLost(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.uses("n0", 0)
		b.node("n0", unready)
		c := &corev1.PersistentVolumeClaim{}
		if err := b.Get(b.Context(), claimKind, plan.Key{Namespace: "shop", Name: "d0"}, c); err != nil {
			b.Fatal(err)
		}
		c.Status.Phase = corev1.ClaimLost
		b.put(c)
		b.runs("a")
		time.Sleep(time.Hour)
		b.is("d0:n0 n0=d0")
		b.removePod("a")
		time.Sleep(5 * time.Minute)
		b.is("d0:n0 n0=d0")
		time.Sleep(2 * time.Minute)
		b.is("")
	})
}

// A node that is not ready for a moment, long after a volume has become spare, keeps what it uses.
func TestANodeFlaps(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.uses("n0", 0)
		b.removePod("a")
		time.Sleep(time.Hour)
		b.node("n0", func(n *corev1.Node) {
			unready(n)
			n.Status.Conditions[0].LastTransitionTime = metav1.Now()
		})
		time.Sleep(5 * time.Minute)
		b.is("d0:n0 n0=d0")
		time.Sleep(2 * time.Minute)
		b.is("")
	})
}
