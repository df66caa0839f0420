package volumes

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// Successor returns the CSI driver that has taken over a plugin of Kubernetes, empty if none has.
func Successor(plugin string) string {
	driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err != nil {
		return "" // the one error that there is: it has no such plugin
	}
	return driver
}

// TakenOver returns the plugin of a volume and the CSI driver that has taken it over. Both are empty if no driver has.
func TakenOver(v *corev1.PersistentVolume) (plugin, driver string) {
	plugin, err := csitranslation.New().GetInTreePluginNameFromSpec(v, nil)
	if err != nil {
		return "", "" // the one error that there is: it has no such plugin
	}
	return plugin, Successor(plugin)
}

// Translate returns what a CSI driver makes of a PersistentVolume of a plugin that it has taken over. It is nil if none
// has, or if the PersistentVolume says nothing that can be translated. Of a volume with several sources, which no API
// server accepts, one is taken by chance.
func Translate(pv *corev1.PersistentVolume) (translated *corev1.PersistentVolume) {
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

// TranslateInline is [Translate] for a volume that stands in a pod of the namespace.
func TranslateInline(s *corev1.VolumeSource, namespace string) (translated *corev1.PersistentVolume) {
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

// nilAfterPanic says that a volume over which the library has panicked cannot be translated. Users write what it
// translates, and index functions of caches call it.
func nilAfterPanic(translated **corev1.PersistentVolume) {
	if recover() != nil {
		*translated = nil
	}
}
