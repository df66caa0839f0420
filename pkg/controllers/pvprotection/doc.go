// Package pvprotection is the persistentvolume-protection controller: a PersistentVolume that is deleted stays as long as it is bound to a
// claim.
//
// A program passes what pvprotection.New(pvprotection.Options{}) returns to manager.New. For users, docs/pvprotection.md says what the controller does.
package pvprotection
