package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A driver that has taken over a plugin is named by the volume and by the plugin; what it makes of the volume has its handle.
func TestMigratedPlugin(t *testing.T) {
	for _, c := range []struct {
		name                   string
		source                 corev1.PersistentVolumeSource
		plugin, driver, handle string
	}{
		{"AWS", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
			"kubernetes.io/aws-ebs", "ebs.csi.aws.com", "vol-1"},
		{"Cinder", corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "1"}},
			"kubernetes.io/cinder", "cinder.csi.openstack.org", "1"},
		{"no driver has", corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}}, "", "", ""},
		{"one that cannot be translated", corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}},
			"kubernetes.io/azure-file", "file.csi.azure.com", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: c.source}}
			if plugin, driver := MigratedPlugin(pv); plugin != c.plugin || driver != c.driver || CSIDriverOf(c.plugin) != c.driver {
				t.Errorf("%q, %q", plugin, driver)
			}
			translated := TranslateToCSI(pv)
			if (translated != nil) != (c.handle != "") || translated != nil && translated.Spec.CSI.VolumeHandle != c.handle {
				t.Errorf("%+v", translated)
			}
		})
	}
}

// What the library panics over is not translated, and ends nothing.
func TestTranslateInlinePanics(t *testing.T) {
	disk := &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] b.vmdk", StoragePolicyName: "gold"}
	policy := &corev1.VolumeSource{VsphereVolume: disk}
	pv := TranslateInlineToCSI(policy, "shop")
	if pv == nil || pv.Spec.CSI.VolumeHandle != "[a] b.vmdk" || disk.StoragePolicyName != "gold" {
		t.Errorf("%+v of %+v", pv, policy)
	}
	panics := func() (translated *corev1.PersistentVolume) {
		translated = &corev1.PersistentVolume{}
		defer nilAfterPanic(&translated)
		panic("as the library does")
	}
	if got := panics(); got != nil {
		t.Errorf("%+v", got)
	}
}
