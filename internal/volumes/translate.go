package volumes

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// CSIDriverOf returns the CSI driver to which an in-tree plugin has been migrated, empty if it has not.
func CSIDriverOf(plugin string) string {
	driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err != nil {
		return "" // the one error that there is: it has no such plugin
	}
	return driver
}

// MigratedPlugin returns the in-tree plugin of a PersistentVolume, and the CSI driver to which it has been migrated.
// Both are empty if the volume has no such plugin.
func MigratedPlugin(v *corev1.PersistentVolume) (plugin, driver string) {
	plugin, err := csitranslation.New().GetInTreePluginNameFromSpec(v, nil)
	if err != nil {
		return "", "" // the one error that there is: it has no such plugin
	}
	return plugin, CSIDriverOf(plugin)
}

// TranslateToCSI returns a PersistentVolume of a migrated in-tree plugin as one of the CSI driver. It returns nil if
// the plugin has not been migrated, or if the PersistentVolume says nothing that can be translated. Of several
// sources, which no API server accepts, it takes any one.
func TranslateToCSI(pv *corev1.PersistentVolume) (translated *corev1.PersistentVolume) {
	defer nilAfterPanic(&translated)
	translator := csitranslation.New()
	if !translator.IsPVMigratable(pv) {
		return nil
	}
	translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), pv)
	if err != nil {
		return nil
	}
	return translated
}

// TranslateInlineToCSI is [TranslateToCSI] for an inline volume of a pod in the namespace.
func TranslateInlineToCSI(s *corev1.VolumeSource, namespace string) (translated *corev1.PersistentVolume) {
	defer nilAfterPanic(&translated)
	translator := csitranslation.New()
	one := &corev1.Volume{VolumeSource: *s}
	if !translator.IsInlineMigratable(one) {
		return nil
	}
	one = one.DeepCopy()
	if one.VsphereVolume != nil {
		one.VsphereVolume.StoragePolicyName = "" // the library panics over it; to attach, no driver needs it
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), one, namespace)
	if err != nil {
		return nil
	}
	return translated
}

// nilAfterPanic has a panic of the library mean that the volume cannot be translated: users write the volumes, and
// index functions of caches translate them.
func nilAfterPanic(translated **corev1.PersistentVolume) {
	if recover() != nil {
		*translated = nil
	}
}
