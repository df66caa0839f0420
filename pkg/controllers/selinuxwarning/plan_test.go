package selinuxwarning

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const only = ". If both pods land on the same node, only one of them may access the volume."

// tells is an event about a conflict.
func tells(pod, property, value, other, otherValue string) string {
	return fmt.Sprintf("Normal %[1]sConflict/%[2]s: %[1]s %[3]q conflicts with pod %[4]s that uses the same volume as this pod with %[1]s %[5]q"+only,
		property, pod, value, other, otherValue)
}

// What pods that mount one volume are told.
func TestEvents(t *testing.T) { // ST-61 to ST-64
	for name, row := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"one pod": {pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"))}},
		"two with one label": {pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1")),
			newPod("b", claiming("disk"), labelled("s0:c1"))}},
		"two labels": {
			pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1")), newPod("b", claiming("disk"), labelled("s0:c2"))},
			want: []string{tells("a", "SELinuxLabel", ":::s0:c1", "b", ":::s0:c2"), tells("b", "SELinuxLabel", ":::s0:c2", "a", ":::s0:c1")},
		},
		"two policies": {
			pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"), recursive), newPod("b", claiming("disk"), labelled("s0:c1"))},
			want: []string{tells("a", "SELinuxChangePolicy", "Recursive", "b", "MountOption"),
				tells("b", "SELinuxChangePolicy", "MountOption", "a", "Recursive")},
		},
		"a pod without a label is recursive": {
			pods: []*corev1.Pod{newPod("a", claiming("disk")), newPod("b", claiming("disk"), labelled("s0:c1"))},
			want: []string{
				tells("a", "SELinuxChangePolicy", "Recursive", "b", "MountOption"),
				tells("b", "SELinuxChangePolicy", "MountOption", "a", "Recursive"),
				tells("a", "SELinuxLabel", "", "b", ":::s0:c1"), tells("b", "SELinuxLabel", ":::s0:c1", "a", ""),
			},
		},
		"two pods without labels": {pods: []*corev1.Pod{newPod("a", claiming("disk")), newPod("b", claiming("disk"), recursive)}},
		"a pod that has ended": {pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"), phase(corev1.PodFailed)),
			newPod("b", claiming("disk"), labelled("s0:c2"))}},
		"a container has another label than its pod": {
			pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"), containerLabelled(0, "s0:c2")),
				newPod("b", claiming("disk"), labelled("s0:c2"))},
		},
		"containers of a pod have different labels": {
			pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"), mounting(1, "data"), containerLabelled(1, "s0:c2"))},
			want: []string{`Warning MultipleSELinuxLabels/a: Volume "data" is mounted twice with different SELinux labels inside this pod`},
		},
		"a container that does not mount the volume": {
			pods: []*corev1.Pod{newPod("a", claiming("disk"), labelled("s0:c1"), mounting(1, "other"), containerLabelled(1, "s0:c2"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := planEvents(epoch, on(t, row.pods...))
			if diff := cmp.Diff(row.want, events(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod in another namespace is not named, nor is what it wants. Claims belong to a namespace, but volumes that stand in pods do not.
func TestOtherNamespacesAreNotNamed(t *testing.T) { // ST-64
	lun := with("lun", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.x"}})
	s := look(t, "kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:0", newPod("a", lun, labelled("s0:c1")),
		newPod("secret", lun, in("other"), labelled("s0:c2")))
	d, p := planEvents(epoch, s)
	want := []string{
		`Normal SELinuxLabelConflict/secret: SELinuxLabel ":::s0:c2" conflicts with another pod that uses the same volume as this pod ` +
			`with a different SELinuxLabel` + only,
		`Normal SELinuxLabelConflict/a: SELinuxLabel ":::s0:c1" conflicts with another pod that uses the same volume as this pod ` +
			`with a different SELinuxLabel` + only,
	}
	if diff := cmp.Diff(want, events(p)); diff != "" || len(d.Conflicts) != 2 {
		t.Error(diff)
	}
}

// Whether two labels are in conflict, whichever comes first.
func TestLabels(t *testing.T) { // ST-63
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", false}, {"u:r:t:s0", "u:r:t:s0", false}, {"u:r:t:s0:c1,c2", "u:r:t:s0:c1,c2", false},
		{"u:r:t:s0", "u:r:t:s1", true}, {":::s0:c1", ":::s0:c2", true},
		{"u:r:t:s0", "u:r:t:", true}, {"u:r:t:s0", "", true}, // a level that is missing is another one
		{"u:r:t:s0", ":r:t:s0", false}, {"u:r:t:s0", "u::t:s0", false}, {"u:r:t:s0", "u:r::s0", false}, {"u:::s0", ":r::s0", false},
		{"u:r:t:s0", "v:r:t:s0", true}, {"u:r:t:s0", "u:q:t:s0", true}, {"u:r:t:s0", "u:r:z:s0", true}, {"u:::", "v:::", true},
	} {
		if differ(propertyLabel, c.a, c.b) != c.want || differ(propertyLabel, c.b, c.a) != c.want {
			t.Errorf("%q and %q are in conflict: %t", c.a, c.b, !c.want)
		}
	}
}

// Which volumes may be mounted with a label.
func TestVolumes(t *testing.T) { // ST-60, ST-62
	inPod := func(source corev1.VolumeSource) []plan.Object {
		return []plan.Object{newPod("a", with("v", source), labelled("s0:c1")), newPod("b", with("v", source), labelled("s0:c2"))}
	}
	claimed := func(source corev1.PersistentVolumeSource, more ...plan.Object) []plan.Object {
		return append(more, newClaim("disk"), newVolume("disk", source), newPod("a", claiming("disk"), labelled("s0:c1")),
			newPod("b", claiming("disk"), labelled("s0:c2")))
	}
	fc := &corev1.FCVolumeSource{WWIDs: []string{"w"}}
	ebs := &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
	ebsDriver := newDriver(ptr.To(true))
	ebsDriver.Name = "ebs.csi.aws.com"
	translated := "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
	for name, row := range map[string]struct {
		volume  string
		objects []plan.Object
		want    int
	}{
		"a driver that mounts with labels": {disk, claimed(csi("disk"), newDriver(ptr.To(true))), 2},
		"a driver that does not":           {disk, claimed(csi("disk"), newDriver(ptr.To(false))), 0},
		"a driver that does not say":       {disk, claimed(csi("disk"), newDriver(nil)), 0},
		"a driver that nobody knows":       {disk, claimed(csi("disk")), 0},
		"iSCSI": {"kubernetes.io/iscsi/p:i:3", claimed(corev1.PersistentVolumeSource{
			ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "p", IQN: "i", Lun: 3}}), 2},
		"Fibre Channel":           {"kubernetes.io/fc/[w]", claimed(corev1.PersistentVolumeSource{FC: fc}), 2},
		"Fibre Channel in pods":   {"kubernetes.io/fc/[w]", inPod(corev1.VolumeSource{FC: fc}), 2},
		"one that a driver took":  {translated, claimed(corev1.PersistentVolumeSource{AWSElasticBlockStore: ebs}, ebsDriver), 2},
		"the same in pods":        {translated, append(inPod(corev1.VolumeSource{AWSElasticBlockStore: ebs}), ebsDriver), 2},
		"NFS has no name":         {"", claimed(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}}), 0},
		"a volume of others only": {"kubernetes.io/csi/disk.example.com^other", claimed(csi("disk"), newDriver(ptr.To(true))), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if d, p := planEvents(epoch, look(t, row.volume, row.objects...)); len(d.Conflicts) != row.want {
				t.Errorf("%s: %v", p.Why, d.Conflicts)
			}
		})
	}
}

// Only a claim that is bound stands for a volume, and only that of an ephemeral volume which belongs to the pod.
func TestClaims(t *testing.T) { // ST-60
	pods := []plan.Object{newPod("a", claiming("disk"), labelled("s0:c1")), newPod("b", claiming("disk"), labelled("s0:c2"))}
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume){
		"the claim is pending":              func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Status.Phase = "Pending" },
		"the claim names another volume":    func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Spec.VolumeName = "x" },
		"the volume is of an older claim":   func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "x" },
		"the volume is nobody's":            func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
		"the claim is of another namespace": func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Namespace = "other" },
	} {
		c, v := newClaim("disk"), newVolume("disk", csi("disk"))
		change(c, v)
		if s := look(t, disk, append(pods, c, v, newDriver(ptr.To(true)))...); len(s.Uses) > 0 {
			t.Errorf("%s: %+v", name, s.Uses)
		}
	}
	ephemeral := newPod("web", with("data", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}))
	claim := newClaim("web-data")
	claim.Spec.VolumeName = "web-data"
	objects := []plan.Object{ephemeral, claim, newVolume("web-data", csi("disk"))}
	if s := look(t, disk, objects...); len(s.Uses) > 0 {
		t.Errorf("the claim is not that of the pod: %+v", s.Uses)
	}
	claim.OwnerReferences = ownedBy(ephemeral)
	if s := look(t, disk, objects...); len(s.Uses) != 1 {
		t.Errorf("the claim is that of the pod: %+v", s.Uses)
	}
}

// A conflict that was reported is not reported again, as long as it lasts.
func TestReportedOnce(t *testing.T) { // ST-64, ST-95
	a, b := newPod("a", claiming("disk"), labelled("s0:c1")), newPod("b", claiming("disk"), labelled("s0:c2"), mounting(1, "data"),
		containerLabelled(1, "s0:c3"))
	s := on(t, a, b)
	d, p := planEvents(epoch, s)
	if len(p.Steps) != 3 {
		t.Fatal(events(p))
	}
	s.Reported = remember(epoch, s, d, plan.Outcome{})
	again, p := planEvents(epoch, s)
	if diff := cmp.Diff(d, again); diff != "" || !p.Empty() {
		t.Errorf("%v: %s", events(p), diff)
	}
	late := newPod("c", claiming("disk"), labelled("s0:c2"))
	third := on(t, a, b, late)
	third.Reported = s.Reported
	_, p = planEvents(epoch, third)
	want := []string{tells("a", "SELinuxLabel", ":::s0:c1", "c", ":::s0:c2"), tells("c", "SELinuxLabel", ":::s0:c2", "a", ":::s0:c1")}
	if diff := cmp.Diff(want, events(p)); diff != "" {
		t.Error(diff)
	}
	alone := on(t, a)
	alone.Reported = s.Reported
	if d, _ := planEvents(epoch, alone); remember(epoch, alone, d, plan.Outcome{}) != nil {
		t.Errorf("%+v is remembered", d)
	}
}

// Of very many pods, each has only so many conflicts, and those that were reported stay.
func TestConflictsAreBounded(t *testing.T) { // ST-89
	var pods []*corev1.Pod
	for i := range 50 {
		pods = append(pods, newPod(fmt.Sprintf("p-%02d", i), claiming("disk"), labelled(fmt.Sprintf("s0:c%d", i))))
	}
	s := on(t, pods[10:]...)
	d, p := planEvents(epoch, s)
	if len(d.Conflicts) != 40*mostConflicts || len(p.Steps) != len(d.Conflicts) {
		t.Errorf("%d conflicts, %d events", len(d.Conflicts), len(p.Steps))
	}
	more := on(t, pods...)
	more.Reported = remember(epoch, s, d, plan.Outcome{})
	if _, p := planEvents(epoch, more); len(p.Steps) != 10*mostConflicts || strings.Contains(fmt.Sprint(events(p)), "/p-40") {
		t.Errorf("%d events: %v", len(p.Steps), events(p)[0])
	}
}
