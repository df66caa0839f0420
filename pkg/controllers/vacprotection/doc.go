// Package vacprotection is the volumeattributesclass-protection controller: a VolumeAttributesClass that is deleted stays as long as a
// PersistentVolumeClaim or a PersistentVolume refers to it.
//
// A program passes what vacprotection.New(vacprotection.Options{}) returns to manager.New. For users, docs/vacprotection.md says what the
// controller does.
package vacprotection
