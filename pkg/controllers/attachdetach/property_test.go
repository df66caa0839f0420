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
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// drawNode is a node n that is as nodes may be.
func drawNode(t *rapid.T, what string) *corev1.Node {
	if rapid.IntRange(0, 7).Draw(t, what+" is gone") == 0 {
		return nil
	}
	handles := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string])
	n := aNode(listing(handles.Draw(t, "listed")...), using(handles.Draw(t, "used")...))
	for _, edit := range rapid.SliceOfN(rapid.SampledFrom([]func(*corev1.Node){unready, outOfServiceTaint, unmanaged, madeSeconds(50),
		madeSeconds(7200), func(n *corev1.Node) { n.UID = "n2" }}), 0, 2).Draw(t, "edits") {
		edit(n)
	}
	return n
}

// drawNodeSnapshot is of the volumes a, b and c.
func drawNodeSnapshot(t *rapid.T) nodeSnapshot {
	s := nodeSnapshot{Name: "n", Node: drawNode(t, "the node"), DisableTimeout: rapid.Bool().Draw(t, "no timeout"),
		Memory: nodeMemory{UID: "n1", UnneededSince: map[string]time.Time{}}}
	s.Held = rapid.SampledFrom([]string{"", "", "too many"}).Draw(t, "held")
	s.PodWithUnboundClaim = rapid.SampledFrom([]string{"", "", "", "shop/unclear"}).Draw(t, "unclear")
	s.Memory.HadUnboundClaim = rapid.IntRange(0, 3).Draw(t, "was unclear") == 0
	if rapid.IntRange(0, 9).Draw(t, "unproved") == 0 {
		s.NotCompared = notCompared
	}
	switch rapid.IntRange(0, 3).Draw(t, "read") {
	case 0:
	case 1:
		s.Unread = "down"
	default:
		s.Read, s.Live = true, drawNode(t, "the node read live")
	}
	for _, h := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(t, h+" is there") {
			s.Volumes = append(s.Volumes,
				on(h, rapid.SliceOfN(rapid.SampledFrom([]func(*nodeVolume){needed, by(unattached), by(deleted), by(foreign), nameless}), 0,
					2).Draw(t, "edits")...))
		}
		if seconds := rapid.SampledFrom([]int{-1, 0, 50, 70, 350, 370, 700}).Draw(t, "spare"); seconds >= 0 {
			s.Memory.UnneededSince[volumes.AttachmentName(driver, h, "n")] = epoch.Add(-time.Duration(seconds) * time.Second)
			s.Memory.Gone = s.Memory.UnneededSince[volumes.AttachmentName(driver, h, "n")]
		}
	}
	s.Memory.Written = epoch.Add(-time.Duration(rapid.SampledFrom([]int{0, 100, 500, 2000}).Draw(t, "written")) * time.Millisecond)
	return s
}

// Whatever there is, nothing is detached that a pod needs, or somebody else has made, or that the node read live lists or has in use,
// unless a rule says so (AD-18, AD-31 to AD-37); and a node that lists what it did not list has it attached.
func TestNothingGoesThatIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNodeSnapshot(t)
		d, p := planNode(epoch, s)
		for name, forced := range d.Deleted {
			v := s.Volumes[slices.IndexFunc(s.Volumes, func(v nodeVolume) bool { return v.Attachment.Name == name })]
			switch live := s.Live; {
			case v.Pod != "" || !ours(v.Attachment) || v.Attachment.DeletionTimestamp != nil || !s.Read || s.NotCompared != "":
				t.Errorf("%s goes: %+v", v.Name, s)
			case live == nil && s.Node != nil, live != nil && (s.Node == nil || live.UID != s.Node.UID || lists(live, v)):
				t.Errorf("%s goes, and the node read live is another one, or lists it", v.Name)
			case live == nil:
				if forced != forcedByEnd || epoch.Sub(d.Gone) < goneGrace || s.PodWithUnboundClaim != "" {
					t.Errorf("%s goes with its node, %q", v.Name, forced)
				}
			case uses(live, v) && !nodes.OutOfService(live) && (s.DisableTimeout || s.PodWithUnboundClaim != "" || s.Held != "" ||
				live.Status.Conditions[0].Status == corev1.ConditionTrue || epoch.Sub(d.UnneededSince[name]) <= unmountTimeout):
				t.Errorf("%s goes, and the node has it in use, %q", v.Name, forced)
			case !uses(live, v) && !nodes.OutOfService(live) && v.Attachment.CreationTimestamp.Before(&live.CreationTimestamp) &&
				epoch.Sub(live.CreationTimestamp.Time) < goneGrace:
				t.Errorf("%s goes, and the node was made anew a moment ago", v.Name)
			case (forced != "") != uses(live, v):
				t.Errorf("%s goes, in use: %t, %q", v.Name, uses(live, v), forced)
			}
		}
		for _, step := range p.Steps {
			change, ok := step.(plan.Change)
			if !ok {
				continue
			}
			for _, a := range change.New.(*corev1.Node).Status.VolumesAttached {
				if !slices.Contains(s.Node.Status.VolumesAttached, a) &&
					!slices.ContainsFunc(s.Volumes, func(v nodeVolume) bool { return v.Name == string(a.Name) && attached(v.Attachment) }) {
					t.Errorf("%s is listed, and is not attached", a.Name)
				}
			}
		}
	})
}

// What is written leaves nothing to write, whatever comes of reads.
func TestTheListIsRightAfterOneWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNodeSnapshot(t)
		_, p := planNode(epoch, s)
		for _, step := range p.Steps {
			if change, ok := step.(plan.Change); ok {
				s.Node, s.Memory.Written = change.New.(*corev1.Node), epoch.Add(-time.Hour)
				_, again := planNode(epoch, s)
				for _, step := range again.Steps {
					if _, ok := step.(plan.Change); ok {
						t.Errorf("%v, and then %v", saidOfNode(p), saidOfNode(again))
					}
				}
			}
		}
	})
}

// drawVolumeSnapshot is of the volume a and three nodes.
func drawVolumeSnapshot(t *rapid.T) volumeSnapshot {
	s := volumeSnapshot{Volume: exclusive, Memory: volumeMemory{Nodes: map[string]usingNodeMemory{}}}
	s.Volume.Exclusive = rapid.Bool().Draw(t, "exclusive")
	s.NotCompared = rapid.SampledFrom([]string{"", "", "", notCompared}).Draw(t, "unproved")
	s.Memory.Refused = map[string]string{"m": rapid.SampledFrom([]string{"", "", "refused"}).Draw(t, "refused")}
	s.DisableTimeout = rapid.Bool().Draw(t, "no timeout")
	s.Held = rapid.SampledFrom([]string{"", "", "too many"}).Draw(t, "held")
	for _, node := range []string{"l", "m", "n"} {
		if n := drawNode(t, node); n != nil && rapid.IntRange(0, 3).Draw(t, "the node names it") == 0 {
			n.Name = node
			s.ReportingNodes = append(s.ReportingNodes,
				reportingNode{Node: n, Needed: rapid.Bool().Draw(t, "needed"), UnboundClaim: rapid.Bool().Draw(t, "unclear")})
		}
		if rapid.Bool().Draw(t, "a pod needs it there") {
			u := at(node, "on-"+node)
			u.Managed = rapid.IntRange(0, 3).Draw(t, "managed") > 0
			s.Users = append(s.Users, u)
		}
		if rapid.IntRange(0, 3).Draw(t, "attached") == 0 {
			s.Attachments = append(s.Attachments,
				anAttachment("a", node,
					rapid.SliceOfN(rapid.SampledFrom([]func(*storagev1.VolumeAttachment){unattached, deleted, foreign, failing, created(10),
						created(1000)}), 0, 2).Draw(t, "edits")...))
		}
		if rapid.Bool().Draw(t, "known") {
			s.Memory.Nodes[node] = usingNodeMemory{Attached: rapid.Bool().Draw(t, "was attached"),
				Message: rapid.SampledFrom([]string{"", "x"}).Draw(t, "told")}
		}
	}
	return s
}

// An exclusive volume gets no VolumeAttachment while another one is there, and no two at once (AD-24, AD-70); a shared one gets all.
func TestOneNodeHasAnExclusiveVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawVolumeSnapshot(t)
		_, p := planVolume(epoch, s)
		created := map[string]bool{}
		for _, a := range creations(p) {
			created[a.Spec.NodeName] = true
		}
		elsewhere := slices.ContainsFunc(s.Attachments, func(a *storagev1.VolumeAttachment) bool { return !created[a.Spec.NodeName] })
		if s.Volume.Exclusive && (len(created) > 1 || len(created) > 0 && elsewhere) {
			t.Errorf("%v beside %d VolumeAttachments", created, len(s.Attachments))
		}
		for _, n := range s.ReportingNodes {
			v := nodeVolume{Name: s.Volume.Name}
			free := !n.Needed && (nodes.OutOfService(n.Node) || n.Node.Status.Conditions[0].Status != corev1.ConditionTrue &&
				!s.DisableTimeout && !n.UnboundClaim && s.Held == "")
			if s.Volume.Exclusive && len(created) > 0 && !created[n.Node.Name] && !free &&
				(lists(n.Node, v) || uses(n.Node, v) && !n.Needed) {
				t.Errorf("%v, and %s says that it has it", created, n.Node.Name)
			}
		}
		at := s.attachmentsByNode()
		for _, u := range s.Users {
			wanted := u.Managed && at(u.Node) == nil && s.NotCompared == ""
			if !s.Volume.Exclusive && created[u.Node] != wanted || created[u.Node] && !wanted {
				t.Errorf("%s gets a VolumeAttachment: %t, %+v", u.Node, created[u.Node], s)
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := drawNodeSnapshot(t), drawVolumeSnapshot(t)
		_, p := planNode(epoch, s)
		_, again := planNode(epoch, plantest.Restored(t, s))
		if diff := cmp.Diff(saidOfNode(p), saidOfNode(again)); diff != "" || p.Why != again.Why {
			t.Errorf("%s, %s: %s", p.Why, again.Why, diff)
		}
		_, p = planVolume(epoch, v)
		_, again = planVolume(epoch, plantest.Restored(t, v))
		if diff := cmp.Diff(saidOfVolume(p), saidOfVolume(again)); diff != "" || p.Why != again.Why {
			t.Errorf("%s, %s: %s", p.Why, again.Why, diff)
		}
	})
}

// What is not cached changes nothing: which volumes a pod has, whether it needs them, and what volumes, nodes and VolumeAttachments are.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		p, pv, a, n := &corev1.Pod{}, &corev1.PersistentVolume{}, &storagev1.VolumeAttachment{}, &corev1.Node{}
		for _, o := range []plan.Object{p, pv, a, n} {
			fill(o)
		}
		if rapid.Bool().Draw(t, "the pod is not being deleted") {
			p.DeletionTimestamp = nil
		}
		source := rapid.IntRange(0, 99).Draw(t, "source")
		plantest.OneOf(&pv.Spec.PersistentVolumeSource, source)
		for i := range p.Spec.Volumes {
			plantest.OneOf(&p.Spec.Volumes[i].VolumeSource, source+i)
		}
		if len(pv.Spec.AccessModes) == 0 {
			pv.Spec.AccessModes = nil // the server accepts neither; what is translated differs
		}
		thin := kept.ProjectPod(p)
		if needs(p) != needs(thin) || p.DeletionTimestamp != nil && runs(p) != runs(thin) {
			t.Errorf("needs its volumes: %t, and from the cache %t", needs(p), needs(thin))
		}
		if diff := cmp.Diff(indexPod(p), indexPod(thin)); diff != "" {
			t.Error(diff)
		}
		project := func(o plan.Object) plan.Object {
			thin, err := kept.Project(o)
			if err != nil {
				t.Fatal(err)
			}
			return thin.(plan.Object)
		}
		if diff := cmp.Diff(ofPV(pv), ofPV(project(pv).(*corev1.PersistentVolume))); diff != "" {
			t.Error(diff)
		}
		thinA, thinN := project(a).(*storagev1.VolumeAttachment), project(n).(*corev1.Node)
		if diff := cmp.Diff(indexAttachment(a), indexAttachment(thinA)); diff != "" || attached(a) != attached(thinA) {
			t.Error(diff)
		}
		n.Annotations = map[string]string{managedNode: "x"}
		s := nodeSnapshot{Name: n.Name, Node: n, Live: n, Read: true, Volumes: []nodeVolume{{Name: csi("a"), Attachment: a}},
			Memory: nodeMemory{UID: n.UID}}
		slim := s
		slim.Node, slim.Volumes = project(n).(*corev1.Node), []nodeVolume{{Name: csi("a"), Attachment: thinA}}
		_, full := planNode(epoch, s)
		if _, p := planNode(epoch, slim); p.Why != full.Why || len(p.Steps) != len(full.Steps) || managed(thinN) {
			t.Errorf("%q with all fields, %q with the cached ones", full.Why, p.Why)
		}
	})
}

// A driver's name, the kind of a volume and its handle are all that tells it apart, and nothing else has that name.
func TestVolumesAreToldApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := func(i int) (string, string, string) {
			return rapid.StringMatching("[a-z.]{1,3}").Draw(t, fmt.Sprint("driver", i)),
				rapid.StringMatching("[a-z^/]{1,3}").Draw(t, fmt.Sprint("handle", i)),
				rapid.StringMatching("[a-z]{1,2}").Draw(t, fmt.Sprint("node", i))
		}
		d1, h1, n1 := one(1)
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: types.UID("u")}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: d1, VolumeHandle: h1}
		v := ofPV(pv)
		if a := newAttachment(v, n1); !ours(a) || a.Name != volumes.AttachmentOf(v.Name, n1) || a.Spec.Attacher != d1 ||
			*a.Spec.Source.PersistentVolumeName != "pv" || plugin(v.Name) != "kubernetes.io/csi:"+d1 {
			t.Errorf("%+v", a)
		}
		d2, h2, _ := one(2)
		if (volumes.CSIName(d1, h1) == volumes.CSIName(d2, h2)) != (d1 == d2 && h1 == h2) && !strings.Contains(d1+d2, "^") {
			t.Errorf("%s %s and %s %s", d1, h1, d2, h2)
		}
	})
}
