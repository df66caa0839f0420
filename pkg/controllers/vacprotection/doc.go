// Package vacprotection is the volumeattributesclass-protection controller: a VolumeAttributesClass that is
// deleted stays as long as a PersistentVolumeClaim or a PersistentVolume refers to it.
//
// A program passes what vacprotection.New(vacprotection.Options{}) returns to manager.New. For users,
// docs/vacprotection.md says what the controller does.
//
// A key is a class. Observe counts, by an index, who refers to one that is being deleted. Plan takes the
// finalizer off when nobody does, and the caches of both kinds show a state that is later than the deletion,
// or have been waited for long enough.
package vacprotection
