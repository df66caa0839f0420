package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AD-12: volumes of plugins that CSI drivers have taken over are those of these drivers, in PersistentVolumes and in pods.
func TestAD12Translated(t *testing.T) {
	one := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for _, c := range []struct {
		name  string
		inPV  corev1.PersistentVolumeSource
		inPod corev1.VolumeSource
		want  string
	}{
		{name: "AWS",
			inPV: corev1.PersistentVolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-1a/vol-1"}},
			inPod: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
			want:  "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{name: "Azure", inPV: corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/subscriptions/1/disk"}},
			inPod: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/subscriptions/1/disk"}},
			want:  "kubernetes.io/csi/disk.csi.azure.com^/subscriptions/1/disk"},
		{name: "Cinder", inPV: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "1"}},
			inPod: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "1"}},
			want:  "kubernetes.io/csi/cinder.csi.openstack.org^1"},
		{name: "vSphere, whose policy the library panics over",
			inPV: corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] b.vmdk",
				StoragePolicyName: "gold"}},
			inPod: corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] b.vmdk",
				StoragePolicyName: "gold"}}, want: "kubernetes.io/csi/csi.vsphere.vmware.com^[a] b.vmdk"},
		{name: "none", inPV: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}},
			inPod: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}}},
		{name: "one that cannot be translated", inPV: corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: c.inPV, AccessModes: one}}
			v := ofPV(pv)
			if v.Name != c.want || v.PV != "pv" || v.Inline != nil || c.want != "" && (!v.Exclusive || !v.Migrated) {
				t.Errorf("%+v, want %q", v, c.want)
			}
			v = ofPodVolume(&c.inPod, "shop")
			if v.Name != c.want || v.PV != "" || (v.Inline != nil) != (c.want != "") {
				t.Errorf("in a pod: %+v, want %q", v, c.want)
			}
			if a := newAttachment(v, "n"); c.want != "" &&
				(a.Spec.Source.InlineVolumeSpec == nil || ofSpec(a.Spec.Source.InlineVolumeSpec).Name != c.want) {
				t.Errorf("%+v", a.Spec)
			}
		})
	}
}
