package attachdetach

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/standalone-kcm/controller-manager/internal/volumes/csinames"
)

// ofTranslated returns the volume that a CSI driver makes of a PersistentVolume of a plugin that it has taken over (AD-12); its name is empty
// if none has, or if the PersistentVolume says nothing that can be translated.
func ofTranslated(pv *corev1.PersistentVolume) (v volume) {
	defer unless(&v)
	plugin, driver := csinames.OfVolume(pv)
	if driver == "" {
		return volume{}
	}
	one := pv.DeepCopy()
	s := one.Spec.PersistentVolumeSource
	one.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{} // but for that of the plugin: which one would be translated of several is left to chance
	switch to := &one.Spec.PersistentVolumeSource; plugin {
	case csinames.AWSElasticBlockStore:
		to.AWSElasticBlockStore = s.AWSElasticBlockStore
	case csinames.GCEPersistentDisk:
		to.GCEPersistentDisk = s.GCEPersistentDisk
	case csinames.AzureDisk:
		to.AzureDisk = s.AzureDisk
	case csinames.AzureFile:
		to.AzureFile = s.AzureFile
	case csinames.Cinder:
		to.Cinder = s.Cinder
	case csinames.Vsphere:
		to.VsphereVolume = s.VsphereVolume
	case csinames.Portworx:
		to.PortworxVolume = s.PortworxVolume
	}
	translated, err := csitranslation.New().TranslateInTreePVToCSI(logr.Discard(), one)
	if err != nil {
		return volume{}
	}
	return migrated(translated)
}

// ofTranslatedInline is the same for a volume that stands in a pod.
func ofTranslatedInline(s *corev1.VolumeSource, namespace string) (v volume) {
	defer unless(&v)
	plugin, driver := csinames.OfSource(s)
	if driver == "" {
		return volume{}
	}
	one := &corev1.Volume{}
	switch plugin {
	case csinames.AWSElasticBlockStore:
		one.AWSElasticBlockStore = s.AWSElasticBlockStore
	case csinames.GCEPersistentDisk:
		one.GCEPersistentDisk = s.GCEPersistentDisk
	case csinames.AzureDisk:
		one.AzureDisk = s.AzureDisk
	case csinames.AzureFile:
		one.AzureFile = s.AzureFile
	case csinames.Cinder:
		one.Cinder = s.Cinder
	case csinames.Vsphere:
		one.VsphereVolume = s.VsphereVolume.DeepCopy()
		one.VsphereVolume.StoragePolicyName = "" // the library panics over it; to attach, no driver needs it
	case csinames.Portworx:
		one.PortworxVolume = s.PortworxVolume
	}
	translated, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(logr.Discard(), one.DeepCopy(), namespace)
	if err != nil {
		return volume{}
	}
	v = migrated(translated)
	v.Inline = &translated.Spec
	return v
}

// unless the library has not panicked, there is no volume: users write what it translates, and indexes of caches call it.
func unless(v *volume) {
	if cause := recover(); cause != nil {
		*v = volume{}
	}
}

func migrated(translated *corev1.PersistentVolume) volume {
	v := ofSpec(&translated.Spec)
	v.Migrated = true
	return v
}
