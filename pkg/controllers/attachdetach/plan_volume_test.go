package attachdetach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// exclusive is the volume a, for one node at a time; shared is for many.
var (
	exclusive = volume{Name: csi("a"), Driver: driver, Handle: "a", PV: "pv-a", Exclusive: true}
	shared    = volume{Name: csi("a"), Driver: driver, Handle: "a", PV: "pv-a"}
)

// at is a node where pods need the volume, by their names.
func at(node string, pods ...string) usingNode {
	u := usingNode{Node: node, Managed: true}
	for _, name := range pods {
		u.Pods = append(u.Pods,
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}})
	}
	return u
}

func elsewhere(u usingNode) usingNode {
	for _, p := range u.Pods {
		p.Namespace = "bank"
	}
	return u
}

func alone(u usingNode) usingNode {
	u.Managed = false
	return u
}

func failing(a *storagev1.VolumeAttachment) {
	a.Status.Attached, a.Status.AttachError = false, &storagev1.VolumeError{Message: "no such disk"}
}

// created is one of so many seconds ago.
func created(seconds int) func(*storagev1.VolumeAttachment) {
	return func(a *storagev1.VolumeAttachment) {
		a.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(seconds) * time.Second))
	}
}

// ending is one whose deletion began so many seconds ago.
func ending(seconds int) func(*storagev1.VolumeAttachment) {
	return func(a *storagev1.VolumeAttachment) {
		a.DeletionTimestamp = &metav1.Time{Time: epoch.Add(-time.Duration(seconds) * time.Second)}
	}
}

// creations are the VolumeAttachments that a plan creates.
func creations(p plan.Plan) (all []*storagev1.VolumeAttachment) {
	for _, step := range p.Steps {
		for _, sequence := range step.(plan.Each).Sequences {
			for _, step := range sequence {
				if c, ok := step.(plan.Create); ok {
					all = append(all, c.Object.(*storagev1.VolumeAttachment))
				}
			}
		}
	}
	return all
}

// saidOfVolume is a plan of a volume as text.
func saidOfVolume(p plan.Plan) (lines []string) {
	var steps []plan.Step
	for _, step := range p.Steps {
		for _, sequence := range step.(plan.Each).Sequences {
			steps = append(steps, sequence...)
		}
	}
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			a := s.Object.(*storagev1.VolumeAttachment)
			source := "inline"
			if a.Spec.Source.PersistentVolumeName != nil {
				source = *a.Spec.Source.PersistentVolumeName
			}
			lines = append(lines, fmt.Sprintf("%s attaches %s to %s", a.Spec.Attacher, source, a.Spec.NodeName))
		case plan.RecordEvent:
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", s.Object.GetName(), s.Event.Type, s.Event.Reason, s.Event.Message))
		default:
			lines = append(lines, fmt.Sprintf("%T", step))
		}
	}
	if p.Requeue > 0 {
		lines = append(lines, "again in "+p.Requeue.String())
	}
	return lines
}

const saysFailed = `Warning FailedAttachVolume: AttachVolume.Attach failed for volume "pv-a" : `

// naming are nodes named so that name the volume a in their statuses.
func naming(name string, needed bool, edits ...func(*corev1.Node)) []reportingNode {
	n := aNode(edits...)
	n.Name = name
	return []reportingNode{{Node: n, Needed: needed}}
}

func unreadySeconds(seconds int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		unready(n)
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch.Add(-time.Duration(seconds) * time.Second))
	}
}

// A node that says that it has an exclusive volume has it, though no VolumeAttachment says so, until it may be taken by force.
func TestNodesThatSayThatTheyHaveAVolume(t *testing.T) {
	for _, c := range []struct {
		name   string
		naming []reportingNode
		s      volumeSnapshot
		has    bool
	}{
		{"it has it in use", naming("m", false, using("a")), volumeSnapshot{}, true},
		{"it is the node itself", naming("n", false, using("a")), volumeSnapshot{}, false},
		{"it waits for it", naming("m", true, using("a")), volumeSnapshot{}, false},
		{"it lists it", naming("m", true, listing("a")), volumeSnapshot{}, true},
		{"also if it is out of service", naming("m", false, listing("a"), outOfServiceTaint), volumeSnapshot{}, true},
		{"it has attached it itself", naming("m", true, using("a"), unmanaged), volumeSnapshot{}, true},
		{"AD-35 it is out of service", naming("m", false, using("a"), outOfServiceTaint), volumeSnapshot{}, false},
		{"AD-34 it has not been ready for a time", naming("m", false, using("a"), unreadySeconds(359)), volumeSnapshot{}, true},
		{"AD-34 for long", naming("m", false, using("a"), unreadySeconds(361)), volumeSnapshot{}, false},
		{"AD-18 a pod there may use it", func() []reportingNode {
			all := naming("m", false, using("a"), unreadySeconds(361))
			all[0].UnboundClaim = true
			return all
		}(), volumeSnapshot{}, true},
		{"AD-34 it has never said that it is ready",
			naming("m", false, using("a"), madeSeconds(359), func(n *corev1.Node) { n.Status.Conditions = nil }), volumeSnapshot{}, true},
		{"AD-3 that does not count", naming("m", false, using("a"), unreadySeconds(361)), volumeSnapshot{DisableTimeout: true}, true},
		{"the brake holds", naming("m", false, using("a"), unreadySeconds(361)), volumeSnapshot{Held: "too many"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.s
			s.Volume, s.Users, s.ReportingNodes = exclusive, []usingNode{at("n", "web")}, c.naming
			_, p := planVolume(epoch, s)
			if created := strings.HasPrefix(saidOfVolume(p)[0], driver+" attaches"); created == c.has ||
				c.has && p.Requeue != recheckInterval {
				t.Error(saidOfVolume(p))
			}
		})
	}
}

func TestPlanVolume(t *testing.T) {
	attachments := func(all ...*storagev1.VolumeAttachment) []*storagev1.VolumeAttachment { return all }
	waiting := map[string]usingNodeMemory{"n": {}}
	const taken = `Warning FailedAttachVolume: Waiting for detach for volume "pv-a" Volume is already `
	for _, c := range []struct {
		name string
		s    volumeSnapshot
		want []string
	}{
		{"AD-24 a volume is attached where a pod needs it", volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}},
			[]string{driver + " attaches pv-a to n"}},
		{"AD-24 a shared one wherever",
			volumeSnapshot{Volume: shared, Users: []usingNode{at("n", "a"), at("m", "b")},
				Attachments: attachments(anAttachment("a", "x"))},
			[]string{driver + " attaches pv-a to n", driver + " attaches pv-a to m"}},
		{"AD-9 not where the kubelet does it", volumeSnapshot{Volume: shared, Users: []usingNode{alone(at("n", "a"))}}, nil},
		{"AD-25 nothing if it is attached",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}, Attachments: attachments(anAttachment("a", "n"))}, nil},
		{"AD-50 pods are told when it is",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "a", "b")}, Attachments: attachments(anAttachment("a", "n")),
				Memory: volumeMemory{Nodes: waiting}}, []string{
				`a Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pv-a" `,
				`b Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pv-a" `,
			}},
		{"AD-26 an exclusive one waits for the node that has it",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}, Attachments: attachments(anAttachment("a", "m"))},
			[]string{
				"web " + taken + "exclusively attached to one node, waiting on detach before it can be attached to another node",
				"again in 1m0s",
			}},
		{"AD-53 for its pods, which are named",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("m", "old-2", "old-1"), at("n", "web")},
				Attachments: attachments(anAttachment("a", "m"))}, []string{
				"web " + taken + "used by pod(s) old-1, old-2", "again in 1m0s",
			}},
		{"AD-53 but not those of other namespaces",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{elsewhere(at("m", "secret", "hidden")), at("n", "web")},
				Attachments: attachments(anAttachment("a", "m"))}, []string{
				"web " + taken + "used by 2 pod(s) in different namespaces", "again in 1m0s",
			}},
		{"AD-53 some are, some are not",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{elsewhere(at("l", "secret")), at("m", "old"), at("n", "web")},
				Attachments: attachments(anAttachment("a", "l"), anAttachment("a", "m"))}, []string{
				"web " + taken + "used by pod(s) old and 1 pod(s) in different namespaces", "again in 1m0s",
			}},
		{"AD-26 it is told once for a while",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}, Attachments: attachments(anAttachment("a", "m")),
				Memory: volumeMemory{Nodes: map[string]usingNodeMemory{
					"n": {Message: `Waiting for detach for volume "pv-a" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node`, Count: 1, NextEvent: epoch.Add(time.Second)}}}}, []string{"again in 1s"}},
		{"AD-70, AD-87 also if that one may not have it",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "m", unattached, deleted))}, []string{
				"web " + taken + "exclusively attached to one node, waiting on detach before it can be attached to another node",
				"again in 1m0s",
			}},
		{"and if somebody else has attached it",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "m", foreign))}, []string{
				"web " + taken + "exclusively attached to one node, waiting on detach before it can be attached to another node",
				"again in 1m0s",
			}},
		{"AD-80 of two nodes the one with the older pod has it",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{alone(at("l", "oldest")), at("m", "old"), at("n", "web")}}, []string{
				driver + " attaches pv-a to m", "web " + taken + "used by pod(s) old", "again in 1m0s",
			}},
		{"AD-21 nothing before it is known what another leader has done",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}, NotCompared: notCompared}, []string{"again in 10s"}},
		{"AD-51 a driver that cannot",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")}, Attachments: attachments(anAttachment("a", "n", failing)),
				Memory: volumeMemory{Nodes: waiting}}, []string{"web " + saysFailed + "no such disk", "again in 1m0s"}},
		{"AD-27 a driver that takes its time",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "n", unattached, created(30)))}, []string{"again in 1m30s"}},
		{"AD-27 too long",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "n", unattached, created(120)))}, []string{
				"web " + saysFailed + "timed out waiting for external-attacher of disk.example.com CSI driver to attach volume a",
				"again in 1m0s",
			}},
		{"AD-27 one that is being detached there",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "n", ending(1)))}, []string{"again in 9s"}},
		{"AD-27 and takes its time",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Attachments: attachments(anAttachment("a", "n", ending(11)))},
			[]string{"web " + saysFailed + "volume attachment is being deleted", "again in 1m0s"}},
		{"AD-51 an API server that refuses",
			volumeSnapshot{Volume: exclusive, Users: []usingNode{at("n", "web")},
				Memory: volumeMemory{Refused: map[string]string{"n": "a webhook", "m": "another"}}},
			[]string{"web " + saysFailed + "a webhook", driver + " attaches pv-a to n", "again in 1m0s"}},
		{"AD-13 what needs no VolumeAttachment gets none",
			volumeSnapshot{Volume: volume{Name: volumes.FCPrefix + "[w]:0", PV: "p"}, Users: []usingNode{at("n", "web")}}, nil},
		{"AD-50 pods are told when their node is",
			volumeSnapshot{Volume: volume{Name: csi("a"), PV: "pv-a"}, Users: []usingNode{at("n", "web")},
				ReportingNodes: naming("n", true, listing("a")), Memory: volumeMemory{Nodes: waiting}}, []string{
				`web Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pv-a" `,
			}},
		{"AD-50 one that stands in a pod has no other name",
			volumeSnapshot{Volume: volume{Name: csi("a")}, Users: []usingNode{at("n", "web")},
				ReportingNodes: naming("n", true, listing("a")), Memory: volumeMemory{Nodes: waiting}}, []string{
				`web Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "` + csi("a") + `" `,
			}},
		{"AD-53 or another one has it",
			volumeSnapshot{Volume: volume{Name: csi("a"), PV: "pv-a", Exclusive: true}, Users: []usingNode{at("n", "web"), at("m", "db")},
				ReportingNodes: naming("m", true, listing("a"))}, []string{
				"web " + taken + "used by pod(s) db", "again in 10s",
			}},
		{"AD-7 one that stands in a pod",
			volumeSnapshot{Volume: volume{Name: csi("a"), Driver: driver, Handle: "a", Inline: &corev1.PersistentVolumeSpec{}},
				Users: []usingNode{at("n", "web")}}, []string{driver + " attaches inline to n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, p := planVolume(epoch, c.s)
			if diff := cmp.Diff(c.want, saidOfVolume(p)); diff != "" {
				t.Errorf("%s\n%s", p.Why, diff)
			}
		})
	}
}

// The same is told again after ever longer times, and something else at once.
func TestTells(t *testing.T) {
	var n usingNodeMemory
	var told []int
	for now := range 7200 {
		why := "refused"
		if now >= 3600 {
			why = "refused otherwise"
		}
		after, due := n.nextEvent(epoch.Add(time.Duration(now)*time.Second), state{Message: attachFailedMessage(exclusive, why)}, nil)
		if n = after; due {
			told = append(told, now)
		}
	}
	if want := []int{0, 60, 180, 420, 900, 1860, 2820, 3600, 3660, 3780, 4020, 4500, 5460, 6420}; !cmp.Equal(want, told) {
		t.Errorf("told after %v seconds, want %v", told, want)
	}
}

func TestRememberVolume(t *testing.T) {
	s := volumeSnapshot{Volume: shared, Users: []usingNode{at("n", "web"), at("m", "web"), at("o", "web")},
		Attachments: []*storagev1.VolumeAttachment{anAttachment("a", "o")},
		Memory:      volumeMemory{Tried: map[string]bool{"l": true, "n": true, "o": true}}}
	d, p := planVolume(epoch, s)
	results := []plan.Result{
		{Verb: plan.Created, Object: creations(p)[0]},
		{Verb: plan.Created, Object: creations(p)[1], Err: fmt.Errorf("no answer")},
	}
	if m := rememberVolume(epoch, s, d, plan.Outcome{Results: results}); !cmp.Equal(m.Tried, map[string]bool{"l": true, "m": true}) ||
		len(m.Nodes) != 3 || !m.Nodes["o"].Attached || !cmp.Equal(m.Refused, map[string]string{"m": "no answer"}) {
		t.Errorf("%+v", m)
	}
}
