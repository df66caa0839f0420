package attachdetach

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// values are the metrics of the controller as lines of "name label... value", of histograms their counts.
func values(t *testing.T, c *collectors) map[string]float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	for _, m := range c.all() {
		registry.MustRegister(m)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all[strings.Join(append([]string{f.GetName()}, labels...), " ")] = value
		}
	}
	return all
}

func TestAD54AD55AD56Metrics(t *testing.T) {
	w := newWorld(t)
	w.brake = brake.New(brake.Budget{})
	c := newCollectors(w.nodeController)
	registry := metrics.NewKubeRegistry()
	for _, m := range c.all() {
		registry.MustRegister(m)
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name, claim.UID = "shop", "d0", "u"
	pv := &corev1.PersistentVolume{}
	pv.Name = "pv-a"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "a"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "d0", UID: "u"}
	p := at("n", "web").Pods[0]
	p.Spec.Volumes = []corev1.Volume{{Name: "d",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d0"}}}}
	n := aNode()
	n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volumes.FCPrefix + "[w]:0"}}
	for _, o := range []plan.Object{claim, pv, p, n, anAttachment("a", "n"), anAttachment("b", "n", unattached)} {
		w.add(t, o)
	}
	gone := volumes.AttachmentName(driver, "gone", "n")
	s := nodeSnapshot{Name: "n", Node: n, Volumes: []nodeVolume{on("a")},
		Memory: nodeMemory{Asked: map[string]asked{gone: {time.Now().Add(-time.Second), "kubernetes.io/csi:" + driver}}}}
	a := s.Volumes[0].Attachment
	d := nodeDecision{Deleted: map[string]string{a.Name: forcedByTaint}, Verdicts: map[string]string{a.Name: "out of service"}}
	c.appliedNode(t.Context(), s, d, plan.Outcome{Results: []plan.Result{{Verb: plan.Deleted, Object: a}}}, plan.Outcome{})
	c.appliedVolume(t.Context(), volumeSnapshot{Volume: exclusive},
		volumeDecision{Why: "it waits", Attached: map[string]time.Duration{"n": time.Second},
			Failed: map[string]time.Duration{"m": time.Second}}, plan.Outcome{}, plan.Outcome{})
	got := values(t, c)
	kind := "kubernetes.io/csi:" + driver
	for line, want := range map[string]float64{
		"attach_detach_controller_attachdetach_controller_forced_detaches out-of-service": 1,
		"attachdetach_controller_total_volumes " + kind + " desired_state_of_world":       1,
		"attachdetach_controller_total_volumes " + kind + " actual_state_of_world":        1,
		"attachdetach_controller_total_volumes kubernetes.io/fc actual_state_of_world":    1,
		"storage_count_attachable_volumes_in_use n " + kind:                               1,
		"storage_operation_duration_seconds false volume_detach success " + kind:          1,
		"storage_operation_duration_seconds false volume_attach success " + kind:          1,
		"storage_operation_duration_seconds false volume_attach fail-unknown " + kind:     1,
	} {
		if got[line] != want {
			t.Errorf("%s: %v, want %v; there are %v", line, got[line], want, got)
		}
	}
	// People ask by the names of VolumeAttachments and PersistentVolumes.
	for _, row := range []struct {
		aliases   map[plan.Key]string
		name, why string
	}{
		{nodeAliases(s, d), a.Name, "out of service"},
		{volumeAliases(volumeSnapshot{Volume: exclusive}, volumeDecision{Why: "it waits"}), "pv-a", "it waits"},
	} {
		if why := row.aliases[plan.Key{Name: row.name}]; len(row.aliases) != 1 || why != row.why {
			t.Errorf("%+v", row)
		}
	}
}

// What is asked about a VolumeAttachment or a PersistentVolume is answered by its node or its volume.
func TestNamesThatPeopleAskBy(t *testing.T) {
	w := newWorld(t)
	pv := &corev1.PersistentVolume{}
	pv.Name = "pv-a"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "a"}
	a := anAttachment("a", "vanished")
	for _, o := range []plan.Object{pv, a, &storagev1.CSIDriver{}} {
		w.add(t, o)
	}
	for name, want := range map[string]string{"pv-a": csi("a"), csi("a"): csi("a"), "other": "other"} {
		if got := w.volumes.volumeNamed(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	for name, want := range map[string]string{a.Name: "vanished", "vanished": "vanished", "n": "n"} {
		if got := w.nodeNamed(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}
