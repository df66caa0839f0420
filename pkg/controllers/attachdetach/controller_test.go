package attachdetach

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	attachmentKind = client.MappingFor[*storagev1.VolumeAttachment]()
	nodeKind       = client.MappingFor[*corev1.Node]()
	podKind        = client.MappingFor[*corev1.Pod]()
	claimKind      = client.MappingFor[*corev1.PersistentVolumeClaim]()
	volumeKind     = client.MappingFor[*corev1.PersistentVolume]()
)

const moment = 200 * time.Millisecond // that a driver takes

// The life of a volume: it is attached and listed, stays while the node uses it, leaves the list, and is detached (AD-60).
func TestAVolumeMoves(t *testing.T) {
	run(t, Options{}, 2, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		b.uses("n0", 0)
		b.removePod("a")
		b.pod("b", 0, "n1")
		time.Sleep(time.Hour)
		b.is("d0:n0 n0=d0")
		b.uses("n0")
		time.Sleep(300 * time.Millisecond) // the list, and then the live read, each a batch later
		b.is("d0:n0!")
		time.Sleep(time.Second)
		b.is("d0:n1 n1=d0")
		time.Sleep(time.Hour)
		if creations, lists := b.CountWrites("create"), b.patches("n0")+b.patches("n1"); creations != 2 || lists != 3 {
			b.Errorf("%v", b.Log())
		}
	})
}

// A leader that ends in the middle of an attach or a detach is followed by one that goes on (AD-21, AD-82), also if its caches are behind.
func TestTakeovers(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.stuck.Store(true)
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0")
	}, func(b *bench) { // in the middle of an attach; the pod has moved meanwhile
		b.removePod("a")
		b.pod("b", 0, "n1")
		time.Sleep(time.Second)
		b.is("d0:n0!")
	}, func(b *bench) { // in the middle of a detach
		time.Sleep(time.Hour)
		b.is("d0:n0!")
		b.stuck.Store(false)
		time.Sleep(2 * time.Second)
		b.is("d0:n1 n1=d0")
	}, func(b *bench) { // at rest
		before := len(b.Writes())
		time.Sleep(time.Hour)
		if n := len(b.Writes()) - before; n > 0 {
			b.Errorf("%d writes at rest", n)
		}
	})
}

// Nothing is attached to a second node while the cache lacks what the leader before has created, and nothing is listed that it has asked to
// detach (AD-21, AD-70).
func TestTheCacheLacksWhatAnotherLeaderHasDone(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.stuck.Store(true)
		b.disk(0)
		b.disk(1)
		b.put(anAttachment("d1", "n2", inTerm))
		b.before = func() {
			synctest.Wait()
			b.FreezeWatches(attachmentKind.GroupVersionKind)
			b.put(anAttachment("d0", "n0", inTerm))
			b.put(anAttachment("d1", "n2", inTerm, deleted))
			b.pod("b", 0, "n1")
			b.pod("c", 1, "n2")
		}
	}, func(b *bench) {
		b.before = nil
		time.Sleep(10 * time.Second)
		b.is("d0:n0 d1:n2!")
		b.ResumeWatches(attachmentKind.GroupVersionKind)
		time.Sleep(10 * time.Second)
		b.is("d0:n0! d1:n2!")
		b.stuck.Store(false)
		time.Sleep(10 * time.Second)
		b.is("d0:n1 d1:n2! n1=d0")
	})
}

// inTerm names the volume after its handle, as the disks of a bench are.
func inTerm(a *storagev1.VolumeAttachment) {
	*a.Spec.Source.PersistentVolumeName = strings.TrimPrefix(*a.Spec.Source.PersistentVolumeName, "pv-")
}

// S1: a cache of nodes that is behind detaches nothing that the node uses, nor does a node that cannot be read.
func TestNodesAreReadLive(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		b.down.Store(true)
		b.removePod("a") // the node is told so, and then not read
		time.Sleep(10 * time.Second)
		b.is("d0:n0")
		b.FreezeWatches(nodeKind.GroupVersionKind)
		b.uses("n0", 0) // which the cache does not show
		b.down.Store(false)
		time.Sleep(10 * time.Minute)
		b.is("d0:n0")
		b.ResumeWatches(nodeKind.GroupVersionKind)
		time.Sleep(time.Hour)
		b.is("d0:n0 n0=d0")
		b.down.Store(true)
		b.uses("n0")
		time.Sleep(time.Hour)
		b.is("d0:n0")
		b.down.Store(false)
		time.Sleep(10 * time.Second)
		b.is("")
	})
}

// A pod that is being deleted keeps its volume as long as a container of it may run (AD-15, AD-18).
func TestPodsThatEnd(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		p := &corev1.Pod{}
		if err := b.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: "a"}, p); err != nil {
			b.Fatal(err)
		}
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		b.put(p)
		time.Sleep(time.Hour)
		b.is("d0:n0 n0=d0")
		p.Status.InitContainerStatuses = nil
		b.put(p)
		time.Sleep(2 * time.Second)
		b.is("")
	})
}

// A driver that says that it attaches nothing gets no VolumeAttachments, and loses those that it has (AD-11, AD-17).
func TestDriversThatAttachNothing(t *testing.T) {
	no := false
	run(t, Options{}, 1, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		b.put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
		time.Sleep(2 * time.Second)
		b.is("")
	})
}

// The same of a volume that stands in a pod, whose plugin the driver has taken over (AD-12).
func TestDriversOfVolumesInPodsThatAttachNothing(t *testing.T) {
	yes, no := true, false
	says := func(required *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "cinder.csi.openstack.org"},
			Spec: storagev1.CSIDriverSpec{AttachRequired: required}}
	}
	run(t, Options{}, 1, func(b *bench) {
		b.put(says(&no))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n0"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data",
			VolumeSource: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "1"}}}}
		b.put(p)
		listed := func(want int) {
			b.Helper()
			time.Sleep(2 * time.Second)
			n := &corev1.Node{}
			if err := b.Get(b.Context(), nodeKind, plan.Key{Name: "n0"}, n); err != nil || len(n.Status.VolumesAttached) != want {
				b.Errorf("listed are %v, want %d (%v)", n.Status.VolumesAttached, want, err)
			}
		}
		listed(0)
		b.put(says(&yes))
		listed(1)
		b.put(says(&no))
		listed(0)
	})
}

// A claim that is bound late, and one that is bound to another claim's volume (AD-14, AD-16).
func TestClaims(t *testing.T) {
	run(t, Options{}, 1, func(b *bench) {
		b.pod("a", 0, "n0")
		b.pod("b", 1, "n0")
		time.Sleep(time.Second)
		b.is("")
		b.disk(0)
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d1", UID: "another"}}
		c.Spec.VolumeName, c.Status.Phase = "d0", corev1.ClaimBound
		b.put(c)
		b.removePod("a")
		time.Sleep(2 * time.Second)
		b.is("")
	})
}

// A node of 50 volumes is drained: its kubelet unmounts them within two seconds. Its status is written three times (AD-73).
func TestANodeIsDrained(t *testing.T) {
	run(t, Options{}, 2, func(b *bench) {
		const n = 50
		used := map[int]bool{}
		for i := range n {
			b.disk(i)
			b.pod(fmt.Sprint("p", i), i, "n0")
			used[i] = true
		}
		time.Sleep(10 * time.Second)
		b.uses("n0", slices.Sorted(maps.Keys(used))...)
		time.Sleep(time.Minute)
		before := b.patches("n0")
		if before > 3 {
			b.Errorf("%d writes of the status to attach %d volumes", before, n)
		}
		for i := range n {
			b.removePod(fmt.Sprint("p", i))
			delete(used, i)
			b.uses("n0", slices.Sorted(maps.Keys(used))...)
			time.Sleep(40 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		b.is("")
		if patches := b.patches("n0") - before; patches > 3 {
			b.Errorf("%d writes of the status for %d volumes", patches, n)
		}
	})
}

// 2000 volumes of 40 nodes are moved to 40 others at once. What the driver takes aside, that is done in a few seconds, with two writes
// for each volume, and a few for each node.
func TestManyVolumesMove(t *testing.T) {
	const volumes, nodes = 2000, 40
	run(t, Options{}, 2*nodes, func(b *bench) {
		for i := range volumes {
			b.disk(i)
			b.pod(fmt.Sprint("p", i), i, fmt.Sprint("n", i%nodes))
		}
		time.Sleep(time.Minute)
		before := len(b.Writes())
		for i := range volumes {
			b.removePod(fmt.Sprint("p", i))
			b.pod(fmt.Sprint("q", i), i, fmt.Sprint("n", nodes+i%nodes))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var nodeList corev1.NodeList
		if err := b.List(b.Context(), nodeKind, "", metav1.ListOptions{}, &nodeList); err != nil {
			b.Fatal(err)
		}
		attached, patches := 0, 0
		for i, n := range nodeList.Items {
			attached += len(n.Status.VolumesAttached)
			if len(n.Status.VolumesAttached) > 0 &&
				slices.ContainsFunc(nodeList.Items[i].Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == "" }) {
				b.Error("a volume without a name is listed")
			}
		}
		creates := 0
		for _, w := range b.Writes()[before:] {
			switch {
			case w.Kind == nodeKind.Kind:
				patches++
			case w.Kind == attachmentKind.Kind && w.Verb == "create":
				creates++
			}
		}
		if attached != volumes || creates != volumes || patches > 6*nodes {
			b.Errorf("after 10s %d of %d are attached, with %d VolumeAttachments created and %d writes of the status of %d nodes", attached,
				volumes, creates, patches, 2*nodes)
		}
	})
}

// AD-51: pods are told at once what the API server says when it refuses to attach a volume to their node, and again as long as it does;
// other nodes get the volume nevertheless.
func TestARefusal(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		b.disk(0, corev1.ReadWriteMany)
		refused := volumes.AttachmentName(driver, "d0", "n1")
		b.BeforeWrite(func(w clienttest.Write) error {
			if w.Key.Name == refused {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "volumeattachments"}, w.Key.Name, errors.New("a webhook"))
			}
			return nil
		})
		for i, node := range []string{"n0", "n1", "n2"} {
			b.pod(fmt.Sprint("p", i), 0, node)
		}
		time.Sleep(2 * time.Second)
		b.is("d0:n0 d0:n2 n0=d0 n2=d0")
		for _, after := range []string{"at first", "a minute later"} {
			events := slices.DeleteFunc(b.told(), func(e string) bool {
				return !strings.Contains(e, "FailedAttachVolume") || !strings.Contains(e, "a webhook")
			})
			if len(events) != 1 {
				t.Errorf("%s told %d times: %v", after, len(events), events)
			}
			time.Sleep(90 * time.Second)
		}
		b.BeforeWrite(nil)
		time.Sleep(2 * time.Minute)
		b.is("d0:n0 d0:n1 d0:n2 n0=d0 n1=d0 n2=d0")
	})
}

func TestAD1AD2AD3Entry(t *testing.T) {
	c := New(Options{})
	if c.Name != "persistentvolume-attach-detach-controller" || c.Alias != "attachdetach" || c.Account != "attachdetach-controller" ||
		c.EventSource != "" || c.OffByDefault || c.Beside {
		t.Errorf("%+v", c)
	}
	if errs := (&Options{ReconcileSyncPeriod: 999 * time.Millisecond}).Validate(); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "reconcile-sync-loop-period") {
		t.Error(errs)
	}
}

// A node whose status was just written is looked at when it may be written again, and others after a moment.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := &nodeController{w.views}
		wrote, node := plan.Outcome{Results: []plan.Result{{Verb: plan.Changed}}}, plan.Key{Name: "n"}
		want := func(what string, want time.Duration) {
			t.Helper()
			if got := n.batch(node); got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		want("never written", batchPeriod)
		n.noteWrites(nodeSnapshot{Name: "n", Node: aNode()}, wrote)
		time.Sleep(300 * time.Millisecond)
		want("written", 700*time.Millisecond)
		n.noteWrites(nodeSnapshot{Name: "n", Node: aNode()}, plan.Outcome{})
		want("looked at", 700*time.Millisecond)
		time.Sleep(time.Minute)
		want("written long ago", batchPeriod)
		n.noteWrites(nodeSnapshot{Name: "n"}, plan.Outcome{})
		if left, _ := w.term.Get(); len(maps.Collect(left.Written.All())) > 0 {
			t.Errorf("left: %+v", left)
		}
	})
}
