package attachdetach

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const driver = "disk.example.com"

// csi is the name of a volume in the status of a node.
func csi(handle string) string { return volumes.CSIName(driver, handle) }

func names2(handles []string) (all []corev1.UniqueVolumeName) {
	for _, h := range handles {
		all = append(all, corev1.UniqueVolumeName(csi(h)))
	}
	return all
}

// aNode is a node n that is ready, edited in order.
func aNode(edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n1", Annotations: map[string]string{managedNode: "true"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func listing(handles ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, name := range names2(handles) {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		}
	}
}

func using(handles ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.VolumesInUse = names2(handles) }
}

func unready(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func outOfServiceTaint(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectPreferNoSchedule}}
}

// madeSeconds is for a node that was made so many seconds ago.
func madeSeconds(seconds int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(seconds) * time.Second))
	}
}

func unmanaged(n *corev1.Node) { n.Annotations = nil }

// anAttachment is one of a volume to a node, which the driver has attached.
func anAttachment(handle, node string, edits ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := newAttachment(volume{Driver: driver, Handle: handle, PV: "pv-" + handle}, node)
	a.UID, a.CreationTimestamp, a.Status.Attached = types.UID("va-"+handle+"-"+node), metav1.NewTime(epoch.Add(-time.Hour)), true
	for _, edit := range edits {
		edit(a)
	}
	return a
}

func unattached(a *storagev1.VolumeAttachment) { a.Status.Attached = false }

func deleted(a *storagev1.VolumeAttachment) {
	a.DeletionTimestamp, a.Finalizers = &metav1.Time{Time: epoch}, []string{"external-attacher/" + driver}
}

func foreign(a *storagev1.VolumeAttachment) { a.Name = "mine" }

// on is a volume of the node n, attached, and needed by nobody.
func on(handle string, edits ...func(*nodeVolume)) nodeVolume {
	v := nodeVolume{Name: csi(handle), Attachment: anAttachment(handle, "n")}
	for _, edit := range edits {
		edit(&v)
	}
	return v
}

func needed(v *nodeVolume) { v.Pod = "shop/web" }

func by(edit func(*storagev1.VolumeAttachment)) func(*nodeVolume) {
	return func(v *nodeVolume) { edit(v.Attachment) }
}

func nameless(v *nodeVolume) { v.Name = "" }

// handleOf finds the handle of a VolumeAttachment of the node n among those of the tests.
func handleOf(name string) string {
	for _, h := range strings.Fields("a b c d e") {
		if volumes.AttachmentName(driver, h, "n") == name {
			return h
		}
	}
	return name
}

// saidOfNode is a plan of a node as text.
func saidOfNode(p plan.Plan) (lines []string) {
	for _, ref := range p.Proof {
		lines = append(lines, "reads "+ref.String())
	}
	for _, step := range p.Steps {
		switch s := step.(type) {
		case plan.Change:
			var list []string
			for _, a := range s.New.(*corev1.Node).Status.VolumesAttached {
				list = append(list, strings.TrimPrefix(string(a.Name), volumes.CSIPrefix+driver+"^")+a.DevicePath)
			}
			lines = append(lines, fmt.Sprintf("%s lists %v", s.Subresource, list))
		case plan.Each:
			for _, sequence := range s.Sequences {
				lines = append(lines, "detach "+handleOf(sequence[0].(plan.Delete).Objects[0].GetName()))
			}
		default:
			lines = append(lines, fmt.Sprintf("%T", step))
		}
	}
	if p.Requeue > 0 {
		lines = append(lines, "again in "+p.Requeue.String())
	}
	return lines
}

// spare is a memory by which no pod has needed volumes for a time; the node was read once.
func spare(since time.Duration, handles ...string) nodeMemory {
	m := nodeMemory{UID: "n1", UnneededSince: map[string]time.Time{}}
	for _, h := range handles {
		m.UnneededSince[volumes.AttachmentName(driver, h, "n")] = epoch.Add(-since)
	}
	return m
}

// burst is a memory by which volumes keep coming: the status was written so many milliseconds ago, and has lacked so many volumes
// since then.
func burst(written, unwritten, since int) nodeMemory {
	ago := func(milliseconds int) time.Time { return epoch.Add(-time.Duration(milliseconds) * time.Millisecond) }
	return nodeMemory{UID: "n1", Burst: writesAtOnce, Written: ago(written), Unwritten: unwritten, UnwrittenSince: ago(since)}
}

func TestPlanNode(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for _, c := range []struct {
		name   string
		node   *corev1.Node
		live   *corev1.Node
		read   bool
		s      nodeSnapshot // the rest of it
		want   []string
		forced string
	}{
		{"AD-28 what is attached and needed is listed", aNode(), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a", needed)}},
			[]string{"status lists [a]"}, ""},
		{"AD-28 not before the driver says so", aNode(), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a", needed, by(unattached))}},
			nil, ""},
		{"AD-40 in an order that does not change", aNode(listing("c", "b")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed), on("b", needed), on("c", needed)}}, []string{"status lists [c b a]"}, ""},
		{"AD-40 and what others list stays", aNode(listing("b"), func(n *corev1.Node) {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: "x/flex", DevicePath: "@/dev/x"})
		}), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a", needed)}}, []string{"status lists [x/flex@/dev/x a]"}, ""},
		{"AD-44 what has lost its VolumeAttachment is not listed", aNode(listing("a")), nil, false, nodeSnapshot{},
			[]string{"status lists []"}, ""},
		{"AD-9 a kubelet that attaches volumes itself is left alone", aNode(unmanaged, listing("a")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, nil, ""},
		{"AD-32 what no pod needs leaves the list first", aNode(listing("a")), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a")}},
			[]string{"status lists []"}, ""},
		{"AD-32 then the node is read", aNode(), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"reads Node n"}, ""},
		{"AD-32 and then it is detached", aNode(), aNode(), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"detach a"}, ""},
		{"AD-32 not if the node read live has it in use", aNode(), aNode(using("a")), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}},
			[]string{"again in 5s"}, ""},
		{"AD-32 nor if it still lists it", aNode(), aNode(listing("a")), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}},
			[]string{"again in 10s"}, ""},
		{"AD-85 nor if it is another node by now", aNode(), aNode(func(n *corev1.Node) { n.UID = "n2" }), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"again in 10s"}, ""},
		{"AD-85 nor if the node cannot be read", aNode(), nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Unread: "down"},
			[]string{"again in 5s"}, ""},
		{"AD-31 what a node has in use stays, and is listed", aNode(listing("a"), using("a")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, nil, ""},
		{"AD-37 however long, if the node is healthy", aNode(listing("a"), using("a")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a")}, nil, ""},
		{"AD-34 six minutes, if it is not ready", aNode(listing("a"), using("a"), unready), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(minute, "a")}, []string{"again in 5m0.001s"}, ""},
		{"AD-34 then it leaves the list", aNode(listing("a"), using("a"), unready), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(6*minute+1, "a")}, []string{"status lists []"}, ""},
		{"AD-34 and is detached", aNode(using("a"), unready), aNode(using("a"), unready), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(6*minute+1, "a")}, []string{"detach a"}, forcedByTime},
		{"AD-72 but not if the node read live is ready", aNode(using("a"), unready), aNode(using("a")), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a")}, []string{"again in 5s"}, ""},
		{"AD-3 nor if that is switched off", aNode(listing("a"), using("a"), unready), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a"), DisableTimeout: true}, nil, ""},
		{"the brake keeps it, and the list", aNode(listing("a"), using("a"), unreadySeconds(599)), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a"), Held: "too many"}, []string{"again in 10s"}, ""},
		{"for ten minutes", aNode(listing("a"), using("a"), unreadySeconds(600)), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a"), Held: "too many"}, []string{"status lists []"}, ""},
		{"AD-10, AD-35 the taint is enough at once, though it is ready", aNode(using("a"), outOfServiceTaint),
			aNode(using("a"), outOfServiceTaint), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"detach a"}, forcedByTaint},
		{"AD-35 also while the brake holds", aNode(using("a"), outOfServiceTaint, unready), aNode(using("a"), outOfServiceTaint, unready),
			true, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Held: "too many"}, []string{"detach a"}, forcedByTaint},
		{"AD-35 not if it is gone by now", aNode(using("a"), outOfServiceTaint), aNode(using("a")), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"again in 5s"}, ""},
		{"AD-18 a pod that may still run keeps it, whatever the node says", aNode(listing("a"), unready, outOfServiceTaint), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed, func(v *nodeVolume) { v.Terminating = true })},
				Memory: spare(time.Hour, "a")}, nil, ""},
		{"AD-34 six minutes of not being ready", aNode(listing("a"), using("a"), unreadySeconds(60)), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a")}, []string{"again in 5m0.001s"}, ""},
		{"AD-34 by the node read live", aNode(using("a"), unreadySeconds(3600)), aNode(using("a"), unreadySeconds(60)), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a")}, []string{"again in 5m0.001s"}, ""},
		{"AD-18 a pod that may use it, and whose claim is not bound", aNode(listing("a"), using("a"), unready), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a"), PodWithUnboundClaim: "shop/web"}, nil, ""},
		{"AD-18 until a moment ago", aNode(listing("a"), using("a"), unready), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: func() nodeMemory {
				m := spare(time.Hour, "a")
				m.HadUnboundClaim = true
				return m
			}()}, []string{"again in 6m0.001s"}, ""},
		{"AD-35 the taint is enough nevertheless", aNode(using("a"), outOfServiceTaint), aNode(using("a"), outOfServiceTaint), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, PodWithUnboundClaim: "shop/web"}, []string{"detach a"}, forcedByTaint},
		{"AD-18 such a pod on a node that is gone", nil, nil, true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: nodeMemory{Gone: epoch.Add(-time.Hour)}, PodWithUnboundClaim: "shop/web"},
			[]string{"again in 10s"}, ""},
		{"AD-62 its node was made anew: its machine has a minute, too", aNode(madeSeconds(50)), aNode(madeSeconds(50)), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"again in 10s"}, ""},
		{"AD-62 and no more", aNode(madeSeconds(61)), aNode(madeSeconds(61)), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}},
			[]string{"detach a"}, ""},
		{"AD-32 not if it was attached to the new one", aNode(madeSeconds(50)), aNode(madeSeconds(50)), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a", by(created(40)))}}, []string{"detach a"}, ""},
		{"AD-35 nor if that is out of service", aNode(madeSeconds(50), outOfServiceTaint), aNode(madeSeconds(50), outOfServiceTaint), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}}, []string{"detach a"}, ""},
		{"AD-62 the node is gone: its machine has a minute", nil, nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(50 * second)}, []string{"again in 10s"}, ""},
		{"AD-71 then its volumes are detached", nil, nil, true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(61 * second), DisableTimeout: true}, []string{"detach a"},
			forcedByEnd},
		{"the brake makes that ten minutes", nil, nil, true,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(61 * second), Held: "too many"}, []string{"again in 8m59s"}, ""},
		{"its pods may take a while to end", nil, nil, false, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: func() nodeMemory {
			m := goneFor(100 * second)
			m.Grace = map[string]time.Duration{volumes.AttachmentName(driver, "a", "n"): 5 * time.Minute}
			return m
		}()}, []string{"again in 4m20s"}, ""},
		{"nobody knows what has used it", nil, nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a")},
				Memory: nodeMemory{Gone: epoch.Add(-time.Hour), UnneededSince: spare(100*second, "a").UnneededSince}},
			[]string{"again in 4m20s"}, ""},
		{"AD-93 and no more", nil, nil, true, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(601 * second), Held: "too many"},
			[]string{"detach a"}, forcedByEnd},
		{"a node that the cache alone misses", nil, aNode(), true, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(time.Hour)},
			[]string{"again in 10s"}, ""},
		{"AD-93 the volume is gone: its VolumeAttachment goes, too", aNode(), aNode(), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a", nameless)}}, []string{"detach a"}, ""},
		{"AD-93 not while the node has it in use", aNode(), aNode(using("a")), true, nodeSnapshot{Volumes: []nodeVolume{on("a", nameless)}},
			[]string{"again in 5s"}, ""},
		{"a VolumeAttachment of somebody else is left alone", aNode(), aNode(), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a", by(foreign))}}, nil, ""},
		{"AD-33 what is being detached is not listed, and not deleted again", aNode(listing("a")), aNode(), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed, by(deleted))}}, []string{"status lists []"}, ""},
		{"AD-73 all of a node in one write", aNode(listing("a", "b", "c")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a"), on("b"), on("c", needed), on("d", needed)}}, []string{"status lists [c d]"}, ""},
		{"AD-73 and no sooner than a second after the last one", aNode(listing("a", "b")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a"), on("b", needed)},
				Memory: nodeMemory{UID: "n1", Written: epoch.Add(-300 * time.Millisecond)}}, []string{"again in 700ms"}, ""},
		{"a burst goes on: the status is written when no volume has come for a second", aNode(), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed)}, Memory: burst(1500, 1, 200)}, []string{"again in 800ms"}, ""},
		{"a volume has come this moment", aNode(), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed), on("b", needed)}, Memory: burst(1500, 1, 900)}, []string{"again in 1s"}, ""},
		{"and no later than three seconds after the last one", aNode(), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed)}, Memory: burst(2900, 1, 200)}, []string{"again in 100ms"}, ""},
		{"no volume has come for a second", aNode(), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a", needed)}, Memory: burst(1500, 1, 1000)}, []string{"status lists [a]"}, ""},
		{"in a burst, what another node may wait for is written after a second", aNode(listing("a", "b")), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{on("a"), on("b", needed)}, Memory: burst(1000, 1, 0)}, []string{"status lists [b]"}, ""},
		{"AD-21 nothing is written before it is known what another leader has done", aNode(), aNode(), true,
			nodeSnapshot{Volumes: []nodeVolume{on("a"), on("b", needed)}, NotCompared: notCompared}, []string{"again in 10s"}, ""},
		{"AD-13 what needs no VolumeAttachment is listed at once", aNode(), nil, false,
			nodeSnapshot{Volumes: []nodeVolume{{Name: volumes.ISCSIPrefix + "p:i:0", StatusOnly: true, Pod: "shop/web"}}},
			[]string{"status lists [kubernetes.io/iscsi/p:i:0]"}, ""},
		{"AD-26 not if another node has it", aNode(), nil, false, nodeSnapshot{Volumes: []nodeVolume{{Name: volumes.FCPrefix + "[w]:0",
			StatusOnly: true, Pod: "shop/web", OtherNode: "m"}}}, []string{"again in 10s"}, ""},
		{"AD-13 and leaves the list when it is not used", aNode(func(n *corev1.Node) {
			n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volumes.FCPrefix + "[w]:0"}}
		}), nil, false, nodeSnapshot{Volumes: []nodeVolume{{Name: volumes.FCPrefix + "[w]:0", StatusOnly: true}}},
			[]string{"status lists []"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			s.Name, s.Node, s.Live, s.Read = "n", c.node, c.live, c.read
			before := c.node.DeepCopy()
			d, p := planNode(epoch, s)
			if diff := cmp.Diff(c.want, saidOfNode(p)); diff != "" {
				t.Errorf("%s\n%s", p.Why, diff)
			}
			if got := d.Deleted[volumes.AttachmentName(driver, "a", "n")]; got != c.forced {
				t.Errorf("forced: %q, want %q", got, c.forced)
			}
			if diff := cmp.Diff(before, c.node); diff != "" {
				t.Errorf("the cache was changed: %s", diff)
			}
		})
	}
}

// goneFor is what is remembered of a node that is gone for so long, and of the volume a, which no pod has needed since; pods that did
// could end at once.
func goneFor(d time.Duration) nodeMemory {
	id := volumes.AttachmentName(driver, "a", "n")
	return nodeMemory{Gone: epoch.Add(-d), UnneededSince: map[string]time.Time{id: epoch.Add(-d)}, Grace: map[string]time.Duration{id: 0}}
}

// What is remembered of a node: since when nothing needs a volume, when the status was written, and what was deleted.
func TestRememberNode(t *testing.T) {
	s := nodeSnapshot{Name: "n", Node: aNode(), Live: aNode(), Read: true, Volumes: []nodeVolume{on("a"), on("b", needed)},
		Memory: spare(time.Minute, "a", "b")}
	s.Memory.Asked = map[string]asked{"other": {When: epoch}}
	d, p := planNode(epoch, s)
	deletion := p.Steps[slices.IndexFunc(p.Steps,
		func(s plan.Step) bool { _, ok := s.(plan.Each); return ok })].(plan.Each).Sequences[0][0].(plan.Delete)
	m := rememberNode(epoch, s, d,
		plan.Outcome{Results: []plan.Result{{Verb: plan.Deleted, Object: deletion.Objects[0]}, {Verb: plan.Changed, Object: s.Node}}})
	a := volumes.AttachmentName(driver, "a", "n")
	want := &nodeMemory{UID: "n1", UnneededSince: map[string]time.Time{a: epoch.Add(-time.Minute)},
		Grace: map[string]time.Duration{volumes.AttachmentName(driver, "b", "n"): 0}, Written: epoch, Burst: 1, UnwrittenSince: epoch,
		Asked: map[string]asked{a: {epoch, "kubernetes.io/csi:" + driver}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

// Of writes that come one after the other, the first ones do not wait for a second in which nothing comes.
func TestABurstOfWrites(t *testing.T) {
	m := nodeMemory{}
	for i, at := range []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second} {
		now := epoch.Add(at)
		if got, want := m.pause(now, i+1, false) > 0, i == 2; got != want {
			t.Errorf("after %v it waits: %t", at, got)
		}
		m.written(now)
	}
	if m.Burst != 1 {
		t.Errorf("after seven seconds, the burst goes on: %d", m.Burst)
	}
}

func TestAD6AD8Names(t *testing.T) {
	if got, want := volumes.AttachmentName("ebs.csi.aws.com", "vol-1", "n"), "csi-"; !strings.HasPrefix(got, want) || len(got) != 68 {
		t.Error(got)
	}
	lun := ptr.To[int32](3)
	for _, c := range []struct {
		spec corev1.PersistentVolumeSource
		want string
	}{
		{corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "a/b^c"}},
			"kubernetes.io/csi/d^a/b^c"},
		{corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.x", Lun: 2}},
			"kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:2"},
		{corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"50", "51"}, Lun: lun}},
			"kubernetes.io/fc/[50 51]:3"},
		{corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"36", "37"}}}, "kubernetes.io/fc/[36 37]"},
		{corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}}, ""},
	} {
		v := ofPV(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: c.spec}})
		if v.Name != c.want || v.PV != "p" {
			t.Errorf("%+v, want %s", v, c.want)
		}
		if v.Driver != "" && volumes.AttachmentOf(v.Name, "n") != volumes.AttachmentName(v.Driver, v.Handle, "n") {
			t.Errorf("%s is not found by its VolumeAttachment", v.Name)
		}
	}
	for _, name := range []string{"csi-", "mine", "csi-" + strings.Repeat("x", 64), "csi-" + strings.Repeat("0", 63)} {
		if ours(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}) {
			t.Errorf("%s is ours", name)
		}
	}
}

// What is held on a node is part of its plan, and so is why nothing is held there any more.
func TestWhatANodeHolds(t *testing.T) {
	unready := aNode(listing("a"), using("a"), unreadySeconds(400))
	for _, row := range []struct {
		name string
		node *corev1.Node
		s    nodeSnapshot
		want plan.Hold
	}{
		{"many nodes are not ready", unready, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a"), Held: "too many"},
			plan.Hold{What: whatIsHeld, Why: "too many"}},
		{"no more than on any day", unready, nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: spare(time.Hour, "a")}, plan.Hold{}},
		{"they are so for long", nil,
			nodeSnapshot{Volumes: []nodeVolume{on("a")}, Memory: goneFor(601 * time.Second), Held: "too many", Read: true},
			plan.Hold{Ended: plan.ByTime}},
		{"nothing is attached any more", unready, nodeSnapshot{Held: "too many"}, plan.Hold{Ended: plan.NothingLeft}},
		{"its kubelet attaches volumes itself", aNode(func(n *corev1.Node) { n.Annotations = nil }), nodeSnapshot{},
			plan.Hold{Ended: plan.NothingLeft}},
	} {
		row.s.Name, row.s.Node = "n", row.node
		if _, p := planNode(epoch, row.s); p.Hold != row.want {
			t.Errorf("%s: %+v, want %+v (%s)", row.name, p.Hold, row.want, p.Why)
		}
	}
}
