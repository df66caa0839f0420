package csinames

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each source of a volume, by the name of its field, and the plugin and the driver that it stands for. All sources that are not here have none.
func taken() map[string][2]string {
	return map[string][2]string{
		"AWSElasticBlockStore": {"kubernetes.io/aws-ebs", "ebs.csi.aws.com"},
		"GCEPersistentDisk":    {"kubernetes.io/gce-pd", "pd.csi.storage.gke.io"},
		"AzureDisk":            {"kubernetes.io/azure-disk", "disk.csi.azure.com"},
		"AzureFile":            {"kubernetes.io/azure-file", "file.csi.azure.com"},
		"Cinder":               {"kubernetes.io/cinder", "cinder.csi.openstack.org"},
		"VsphereVolume":        {"kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"},
		"PortworxVolume":       {"kubernetes.io/portworx-volume", "pxd.portworx.com"},
	}
}

// sources calls f with each source that a struct of sources can have, and with none.
func sources[T any](t *testing.T, f func(T) (plugin, driver string)) {
	t.Helper()
	found := 0
	kind := reflect.TypeFor[T]()
	for i := range kind.NumField() {
		var all T
		reflect.ValueOf(&all).Elem().Field(i).Set(reflect.New(kind.Field(i).Type.Elem()))
		want := taken()[kind.Field(i).Name]
		plugin, driver := f(all)
		if plugin != want[0] || driver != want[1] {
			t.Errorf("%s is %q and %q, want %q", kind.Field(i).Name, plugin, driver, want)
		}
		if plugin != "" {
			found++
		}
	}
	var none T
	if plugin, driver := f(none); found != len(taken()) || plugin+driver != "" {
		t.Errorf("%d sources have a driver; a volume without a source is %q and %q", found, plugin, driver)
	}
}

func TestVolumes(t *testing.T) {
	sources(t, func(s corev1.PersistentVolumeSource) (string, string) {
		return OfVolume(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: s}})
	})
}

func TestVolumesOfPods(t *testing.T) {
	sources(t, func(s corev1.VolumeSource) (string, string) { return OfSource(&s) })
}

func TestOtherPlugins(t *testing.T) {
	for _, plugin := range []string{"", "kubernetes.io/nfs", "kubernetes.io/no-provisioner", "ebs.csi.aws.com", "aws-ebs"} {
		if driver := Driver(plugin); driver != "" {
			t.Errorf("%q was taken over by %s", plugin, driver)
		}
	}
}
