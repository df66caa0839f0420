package csinames

import corev1 "k8s.io/api/core/v1"

// The plugins that CSI drivers have taken over, by the names that StorageClasses and annotations have.
const (
	AWSElasticBlockStore = "kubernetes.io/aws-ebs"
	GCEPersistentDisk    = "kubernetes.io/gce-pd"
	AzureDisk            = "kubernetes.io/azure-disk"
	AzureFile            = "kubernetes.io/azure-file"
	Cinder               = "kubernetes.io/cinder"
	Vsphere              = "kubernetes.io/vsphere-volume"
	Portworx             = "kubernetes.io/portworx-volume"
)

// Driver returns the CSI driver that has taken over a plugin, empty if none has.
func Driver(plugin string) string {
	switch plugin {
	case AWSElasticBlockStore:
		return "ebs.csi.aws.com"
	case GCEPersistentDisk:
		return "pd.csi.storage.gke.io"
	case AzureDisk:
		return "disk.csi.azure.com"
	case AzureFile:
		return "file.csi.azure.com"
	case Cinder:
		return "cinder.csi.openstack.org"
	case Vsphere:
		return "csi.vsphere.vmware.com"
	case Portworx:
		return "pxd.portworx.com"
	}
	return ""
}

// OfVolume returns the plugin of a PersistentVolume and the CSI driver that has taken it over. Both are empty if it has no such plugin.
func OfVolume(v *corev1.PersistentVolume) (plugin, driver string) {
	switch s := &v.Spec.PersistentVolumeSource; {
	case s.AWSElasticBlockStore != nil:
		plugin = AWSElasticBlockStore
	case s.GCEPersistentDisk != nil:
		plugin = GCEPersistentDisk
	case s.AzureDisk != nil:
		plugin = AzureDisk
	case s.AzureFile != nil:
		plugin = AzureFile
	case s.Cinder != nil:
		plugin = Cinder
	case s.VsphereVolume != nil:
		plugin = Vsphere
	case s.PortworxVolume != nil:
		plugin = Portworx
	}
	return plugin, Driver(plugin)
}

// OfSource returns the same for a volume that stands in a pod.
func OfSource(s *corev1.VolumeSource) (plugin, driver string) {
	switch {
	case s.AWSElasticBlockStore != nil:
		plugin = AWSElasticBlockStore
	case s.GCEPersistentDisk != nil:
		plugin = GCEPersistentDisk
	case s.AzureDisk != nil:
		plugin = AzureDisk
	case s.AzureFile != nil:
		plugin = AzureFile
	case s.Cinder != nil:
		plugin = Cinder
	case s.VsphereVolume != nil:
		plugin = Vsphere
	case s.PortworxVolume != nil:
		plugin = Portworx
	}
	return plugin, Driver(plugin)
}
