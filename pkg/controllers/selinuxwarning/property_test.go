package selinuxwarning

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// world is pods of two namespaces that may mount a volume, and whether its driver mounts with labels.
type world struct {
	pods   []*corev1.Pod
	mounts *bool
}

var lun = corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}

const lunName = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"

func draw(t *rapid.T) (w world) {
	w.mounts = rapid.SampledFrom([]*bool{ptr.To(true), ptr.To(true), ptr.To(false), nil}).Draw(t, "mounts")
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		p := newPod(fmt.Sprint("p", i))
		if rapid.Bool().Draw(t, "elsewhere") {
			in("other")(p)
		}
		if rapid.IntRange(0, 4).Draw(t, "uses") > 0 {
			with("v", lun)(p)
		}
		if rapid.IntRange(0, 3).Draw(t, "labelled") > 0 {
			labelledAs(options(rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "user"), "",
				rapid.SampledFrom([]string{"", "t"}).Draw(t, "type"), rapid.SampledFrom([]string{"", "s0", "s1"}).Draw(t, "level")))(p)
		}
		if rapid.IntRange(0, 3).Draw(t, "recursive") == 0 {
			recursive(p)
		}
		if rapid.IntRange(0, 3).Draw(t, "second container") == 0 {
			mounting(1, "v")(p)
			containerLabelled(1, "s0")(p)
		}
		phase(rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodRunning, corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase"))(p)
		w.pods = append(w.pods, p)
	}
	return w
}

func (w world) objects() []plan.Object {
	d := newDriver(w.mounts)
	d.Name = "ebs.csi.aws.com"
	return append(plan.Objects(w.pods), d)
}

// Conflicts have two sides: each pod of one has it with the other. Nobody has one with itself, with a pod that has ended or uses another
// volume, or if the driver does not mount with labels.
func TestConflictsHaveTwoSides(t *testing.T) { // ST-63, ST-65
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		d, p := planEvents(epoch, look(t, lunName, w.objects()...))
		there := setOf(d.Conflicts)
		if len(there) != len(d.Conflicts) || len(p.Steps) != len(d.Conflicts)+len(d.Twice) {
			t.Errorf("%d events about %v", len(p.Steps), d.Conflicts)
		}
		may := map[string]bool{}
		for _, one := range w.pods {
			may[string(one.UID)] = len(one.Spec.Volumes) > 0 && one.Status.Phase != corev1.PodFailed
		}
		for _, c := range d.Conflicts {
			if !there[conflict{c.Property, c.Other, c.Pod}] || c.Pod.UID == c.Other.UID || c.Pod.Value == c.Other.Value ||
				!may[string(c.Pod.UID)] || !may[string(c.Other.UID)] || w.mounts == nil || !*w.mounts {
				t.Errorf("%+v", c)
			}
		}
	})
}

// What was reported is not reported again, and what comes or goes changes nothing of what stays.
func TestWhatStaysIsNotReportedAgain(t *testing.T) { // ST-64
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before := look(t, lunName, w.objects()...)
		d, _ := planEvents(epoch, before)
		if len(w.pods) > 0 && rapid.Bool().Draw(t, "one goes") {
			w.pods = w.pods[1:]
		}
		after := look(t, lunName, w.objects()...)
		after.Reported = remember(epoch, before, d, plan.Outcome{})
		if again, p := planEvents(epoch, after); !p.Empty() {
			t.Errorf("%v of %v, after %v", events(p), again.Conflicts, d.Conflicts)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		s := look(t, lunName, w.objects()...)
		if rapid.Bool().Draw(t, "reported") {
			d, _ := planEvents(epoch, s)
			s.Reported = remember(epoch, s, d, plan.Outcome{})
		}
		d1, p1 := planEvents(epoch, s)
		d2, p2 := planEvents(epoch, plantest.Restored(t, s))
		plantest.Same(t, p1, p2)
		if diff := cmp.Diff(d1, d2); diff != "" {
			t.Error(diff)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		for _, p := range w.pods {
			volumes, security, phase := p.Spec.Volumes, p.Spec.SecurityContext, p.Status.Phase
			containers := p.Spec.Containers
			key := p.ObjectMeta
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(p)
			p.Spec.Volumes, p.Spec.SecurityContext, p.Status.Phase, p.ObjectMeta = volumes, security, phase, key
			if rapid.Bool().Draw(t, "plain") {
				p.Spec.Containers = containers
			}
		}
		projected := w.objects()
		for i, o := range projected {
			cached, err := kept.Project(o)
			if err != nil {
				t.Fatal(err)
			}
			projected[i] = cached.(plan.Object)
		}
		d1, p1 := planEvents(epoch, look(t, lunName, w.objects()...))
		d2, p2 := planEvents(epoch, look(t, lunName, projected...))
		plantest.Same(t, p1, p2)
		if diff := cmp.Diff(d1, d2); diff != "" {
			t.Error(diff)
		}
	})
}
