// Package pvprotection is the persistentvolume-protection controller: a PersistentVolume that is deleted
// stays as long as it is bound to a claim.
//
// A program passes what pvprotection.New(pvprotection.Options{}) returns to manager.New. For users,
// docs/pvprotection.md says what the controller does.
//
// A key is a volume. All that Plan needs is the volume itself: it gets the finalizer while it lives, and
// loses it when it is being deleted and its phase is not Bound.
package pvprotection
