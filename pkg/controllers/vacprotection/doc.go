// Package vacprotection is the volumeattributesclass-protection controller: a VolumeAttributesClass that is
// deleted stays as long as a PersistentVolumeClaim or a PersistentVolume refers to it.
//
// A program passes what vacprotection.New(vacprotection.Options{}) returns to manager.New. For users,
// docs/vacprotection.md says what the controller does.
//
// A key is a class. Observe counts, by an index, who refers to one that is being deleted. Plan takes the
// finalizer off when nobody does. The caches of both kinds have to show a state that is later than the
// deletion, unless they were waited for long enough.
package vacprotection
