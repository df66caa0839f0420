package attachdetach

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// translator knows the plugins that CSI drivers have taken over, and what these drivers call their volumes. It is asked about objects that the API
// server has accepted: of a volume with several sources it would choose one by chance.
var translator = csitranslation.New()

// ofTranslated returns the volume that a CSI driver makes of a PersistentVolume of a plugin that it has taken over (AD-12); its name is empty
// if none has, or if the PersistentVolume says nothing that can be translated.
func ofTranslated(pv *corev1.PersistentVolume) (v volume) {
	defer unless(&v)
	if !translator.IsPVMigratable(pv) {
		return volume{}
	}
	translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), pv)
	if err != nil {
		return volume{}
	}
	return migrated(translated)
}

// ofTranslatedInline is the same for a volume that stands in a pod.
func ofTranslatedInline(s *corev1.VolumeSource, namespace string) (v volume) {
	defer unless(&v)
	one := &corev1.Volume{VolumeSource: *s}
	if !translator.IsInlineMigratable(one) {
		return volume{}
	}
	one = one.DeepCopy()
	if one.VsphereVolume != nil {
		one.VsphereVolume.StoragePolicyName = "" // the library panics over it; to attach, no driver needs it
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), one, namespace)
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
