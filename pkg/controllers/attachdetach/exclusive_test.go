package attachdetach

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const lun = volumes.ISCSIPrefix + "10.0.0.1:3260:iqn.x:0"

// lunSource is an iSCSI volume, of which nodes are only told.
func lunSource() corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.x"}}
}

func usingLun(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{lun} }

// older puts a pod that uses the claim d0 on a node, and is an hour older than those that are put now.
func (b *bench) older(name, node string) {
	b.Helper()
	b.pod(name, 0, node)
	p := &corev1.Pod{}
	if err := b.Server.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: name}, p); err != nil {
		b.Fatal(err)
	}
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	b.put(p)
}

// AD-13, AD-24: one node at a time lists an exclusive volume of which it is only told, though the kubelets of all say that they use
// what they wait for. Of two nodes that is the one of the older pod (AD-80).
func TestOneNodeIsToldOfAVolume(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.volume(0, lunSource(), corev1.ReadWriteOnce)
		for _, node := range []string{"n0", "n1", "n2"} {
			b.node(node, usingLun)
		}
		time.Sleep(time.Second)
		b.pod("c", 0, "n0")
		b.pod("a", 0, "n1")
		b.pod("b", 0, "n2")
		time.Sleep(time.Minute)
		b.is("n1=" + lun)
		const (
			succeeded   = `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "d0" `
			waiting     = `Warning FailedAttachVolume Waiting for detach for volume "d0" Volume is already `
			exclusively = waiting + "exclusively attached to one node, waiting on detach before it can be attached to another node"
		)
		// Two pods wait, and are told twice in a minute. While the cache does not show the last pod yet, its node uses the volume for
		// nobody: the other two may be told that, once each.
		b.toldAll(exclusively, 2, succeeded, waiting+"used by pod(s) a", waiting+"used by pod(s) a", waiting+"used by pod(s) a",
			waiting+"used by pod(s) a")
		b.removePod("a")
		b.node("n1", func(n *corev1.Node) { n.Status.VolumesInUse = nil })
		time.Sleep(time.Minute)
		b.is("n2=" + lun)
		// Both are told once that n1 has the volume, for nobody, and then the one that still waits, once in what is left of the minute.
		b.toldAll("", 0, succeeded, exclusively, exclusively, waiting+"used by pod(s) b")
	})
}

// toldAll checks all events since the last look, in any order. One more event may be among them, up to so many times.
func (b *bench) toldAll(maybe string, most int, want ...string) {
	b.Helper()
	got := b.told()
	for range most {
		if len(want) < len(got) {
			want = append(want, maybe)
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		b.Errorf("told %q, want %q", got, want)
	}
}

// The same while the cache does not show yet which node has been told, by this process or by the one before.
func TestOneNodeIsToldThoughTheCacheIsBehind(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.volume(0, lunSource(), corev1.ReadWriteOnce)
		b.FreezeWatches(nodeKind.GroupVersionKind)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("n0=" + lun)
		b.older("b", "n1")
		time.Sleep(time.Minute)
		b.is("n0=" + lun)
		b.ResumeWatches(nodeKind.GroupVersionKind)
		b.removePod("a")
		time.Sleep(time.Minute)
		b.is("n1=" + lun)
		b.removePod("b")
		time.Sleep(time.Minute)
		b.is("")
		b.before = func() {
			synctest.Wait()
			b.FreezeWatches(nodeKind.GroupVersionKind)
			b.node("n2", func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: lun}} })
			b.pod("c", 0, "n2")
			b.older("d", "n0")
		}
	}, func(b *bench) {
		b.before = nil
		time.Sleep(time.Minute)
		b.is("n2=" + lun)
		b.ResumeWatches(nodeKind.GroupVersionKind)
		time.Sleep(time.Minute)
		b.is("n2=" + lun)
	})
}

// A node that is down gives up a volume of which it was told, too, by the rules of force (AD-34, AD-35, AD-3).
func TestForceOfToldVolumes(t *testing.T) {
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
				b.volume(0, lunSource(), corev1.ReadWriteOnce)
				time.Sleep(time.Second) // a claim that is bound at that moment could have the node told before anybody waits for it
				b.pod("a", 0, "n0")
				time.Sleep(time.Second)
				if got := b.told(); len(got) != 1 || !strings.Contains(got[0], "SuccessfulAttachVolume") {
					b.Errorf("told %q", got)
				}
				b.node("n0", usingLun)
				b.node("n0", c.edit)
				b.removePod("a")
				b.pod("b", 0, "n1")
				time.Sleep(c.kept - time.Second)
				if c.kept > 0 {
					b.is("n0=" + lun)
				}
				if time.Sleep(20 * time.Second); c.kept < time.Hour {
					b.is("n1=" + lun)
				}
			})
		})
	}
}

// Of two nodes that are about to be told of an exclusive volume, the first one has it until it neither needs nor lists it, or may have been
// told.
func TestReservations(t *testing.T) {
	w := newWorld(t)
	d := nodeDecision{Reserves: []string{lun}}
	other := nodeDecision{Reserves: []string{"other", lun}}
	now, n := time.Now(), aNode()
	needed := nodeSnapshot{Name: "n", Node: n, Volumes: []nodeVolume{{Name: lun, StatusOnly: true, Pod: "shop/a"}}}
	reserves := func(when, node string, d nodeDecision, want error) {
		t.Helper()
		if err := w.reserve(nodeSnapshot{Name: node}, d); err != want {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	apply := func(s nodeSnapshot) {
		w.term.Update(func(t term) term { return t.unreserved(now, s, nodeDecision{}) })
	}
	reserves("at first", "n", d, nil)
	reserves("another node", "m", other, plan.ErrStale)
	reserves("another volume", "o", nodeDecision{Reserves: []string{"other"}}, nil)
	reserves("the node itself", "n", d, nil)
	apply(needed)
	reserves("it is needed", "m", d, plan.ErrStale)
	unneeded := nodeSnapshot{Name: "n", Node: n, Memory: nodeMemory{Failed: now.Add(-unsure)}}
	apply(unneeded)
	reserves("the node may have been told", "m", d, plan.ErrStale)
	unneeded.Memory.Failed = now.Add(-unsure - 1)
	apply(unneeded)
	reserves("it is not needed any more", "m", d, nil)
	apply(nodeSnapshot{Name: "m", Memory: nodeMemory{Failed: now}})
	reserves("the node is gone", "n", d, nil)
	apply(nodeSnapshot{Name: "n"})
	apply(nodeSnapshot{Name: "o"})
	if left, _ := w.term.Get(); len(maps.Collect(left.Reserved.All()))+len(maps.Collect(left.Holders.All())) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A node that is gone keeps a volume that its machine may use: as long as pods there may run, and a minute more than they may take to end
// (AD-18, AD-62). A new leader does not know what the node had, but which pods were on it.
func TestAVolumeOfANodeThatIsGone(t *testing.T) {
	for what, moves := range map[string]bool{"the pod goes": true, "the pod stays": false} {
		t.Run(what, func(t *testing.T) {
			lose := func(b *bench) {
				p := &corev1.Pod{}
				if err := b.Server.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: "a"}, p); err != nil {
					b.Fatal(err)
				}
				p.Status.Phase = corev1.PodRunning
				b.put(p)
				b.node("n0", usingLun)
				b.pod("b", 0, "n1")
				b.remove(nodeKind, "", "n0")
				time.Sleep(10 * time.Minute)
				b.is("")
				if !moves {
					return
				}
				b.removePod("a")
				time.Sleep(80 * time.Second)
				b.is("")
				time.Sleep(30 * time.Second)
				b.is("n1=" + lun)
			}
			begin := func(b *bench) {
				b.volume(0, lunSource(), corev1.ReadWriteOnce)
				time.Sleep(time.Second)
				b.pod("a", 0, "n0")
				time.Sleep(2 * time.Second)
				b.is("n0=" + lun)
			}
			run(t, Options{}, 3, begin, lose, func(b *bench) { // other leaders
				time.Sleep(10 * time.Minute)
				b.is(map[bool]string{true: "n1=" + lun}[moves])
			})
		})
	}
}

// A Node that is made anew has not said yet what its machine uses: it keeps what is reserved for it for a minute.
func TestAVolumeOfANodeThatIsMadeAnew(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.volume(0, lunSource(), corev1.ReadWriteOnce)
		time.Sleep(time.Second)
		b.pod("a", 0, "n0")
		time.Sleep(2 * time.Second)
		b.is("n0=" + lun)
		b.pod("b", 0, "n1")
		b.remove(nodeKind, "", "n0")
		b.removePod("a")
		time.Sleep(10 * time.Second)
		b.makeAnew("n0")
		time.Sleep(50 * time.Second)
		b.is("")
		time.Sleep(30 * time.Second)
		b.is("n1=" + lun)
	})
}
