package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a user writes into a pod says nothing of the volumes of others: not whether they are for one node at a time, nor what their
// VolumeAttachments name. For pods that name them so, it does.
func TestVolumeInAPodOfAnother(t *testing.T) {
	for name, phase := range map[string]corev1.PodPhase{"its pod has failed": corev1.PodFailed, "its pod runs": corev1.PodRunning} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{}, 4, func(b *bench) {
				b.volume(0, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com",
					VolumeHandle: "vol-1"}}, corev1.ReadWriteMany)
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n0"},
					Status: corev1.PodStatus{Phase: phase}}
				p.Spec.Volumes = []corev1.Volume{{Name: "x",
					VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1",
						FSType: "evil"}}}}
				b.pod("a", 0, "n0")
				time.Sleep(time.Second) // p alone on n0, while no cache has the claim of a, has a VolumeAttachment of its own volume
				b.put(p)
				time.Sleep(time.Second)
				b.pod("b", 0, "n1")
				time.Sleep(10 * time.Second)
				var list storagev1.VolumeAttachmentList
				if err := b.List(b.Context(), attachmentKind, "", metav1.ListOptions{}, &list); err != nil {
					t.Fatal(err)
				}
				for _, a := range list.Items {
					if a.Spec.Source.InlineVolumeSpec != nil {
						t.Errorf("on %s, the VolumeAttachment is of the volume in the pod", a.Spec.NodeName)
					}
				}
				if len(list.Items) != 2 {
					t.Errorf("%d VolumeAttachments", len(list.Items))
				}
			})
		})
	}
}

// Of two PersistentVolumes of one disk, one is for one node at a time, and the other is not. Each counts for the pods that name it.
func TestTwoVolumesOfADisk(t *testing.T) {
	run(t, Options{}, 4, func(b *bench) {
		b.volume(0, diskOf(0), corev1.ReadWriteOnce)
		b.volume(1, diskOf(0), corev1.ReadWriteMany)
		b.pod("a", 1, "n0")
		time.Sleep(time.Second)
		b.pod("b", 1, "n1")
		time.Sleep(time.Second)
		b.is("d1:n0 d1:n1 n0=d0 n1=d0")
		b.pod("c", 0, "n2") // waits for both
		time.Sleep(time.Minute)
		b.is("d1:n0 d1:n1 n0=d0 n1=d0")
		b.pod("d", 1, "n3") // does not
		time.Sleep(time.Minute)
		b.is("d1:n0 d1:n1 d1:n3 n0=d0 n1=d0 n3=d0")
	})
}
