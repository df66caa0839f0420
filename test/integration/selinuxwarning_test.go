package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two pods that want a volume with different labels are told, and the metrics show it until one of them is gone.
func TestSELinuxConflicts(t *testing.T) { // ST-60 to ST-65
	b := share(t)
	b.workOfSELinuxWarnings()
	conflict := fmt.Sprintf(`selinux_warning_controller_selinux_volume_conflict{pod1_name="one",pod1_namespace=%q,pod1_value=":::s0:c1",`+
		`pod2_name="two",pod2_namespace=%[1]q,pod2_value=":::s0:c2",property="SELinuxLabel"} 1`, b.ns)
	shows := func(want bool) {
		b.Helper()
		b.wait(fmt.Sprintf("the metrics show the conflict: %t", want), func() error {
			text, err := askShared(t).get("/metrics")
			if err == nil && strings.Contains(text, conflict) != want {
				err = fmt.Errorf("they do not")
			}
			return err
		})
	}
	shows(true)
	b.removePod("two")
	shows(false)
}

// workOfSELinuxWarnings makes two pods that cannot share a volume, and waits until both are told.
func (b *bench) workOfSELinuxWarnings() {
	b.Helper()
	for name, level := range map[string]string{"one": "s0:c1", "two": "s0:c2"} {
		p := pod(name)
		p.Spec.SchedulerName = "nobody"
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data",
			VolumeSource: corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{b.ns}}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for name, message := range map[string]string{
		"one": `SELinuxLabel ":::s0:c1" conflicts with pod two that uses the same volume as this pod with SELinuxLabel ":::s0:c2". If both ` +
			`pods land on the same node, only one of them may access the volume.`,
		"two": `SELinuxLabel ":::s0:c2" conflicts with pod one that uses the same volume as this pod with SELinuxLabel ":::s0:c1". If both ` +
			`pods land on the same node, only one of them may access the volume.`,
	} {
		b.wait("the pod "+name+" is told", func() error {
			events, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{
				FieldSelector: "involvedObject.name=" + name + ",reason=SELinuxLabelConflict"})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Message == message && e.Type == corev1.EventTypeNormal && e.Source.Component == "selinux_warning" {
					return nil
				}
			}
			return fmt.Errorf("%+v", events.Items)
		})
	}
}
