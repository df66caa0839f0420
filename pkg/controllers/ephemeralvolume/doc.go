// Package ephemeralvolume is the ephemeral-volume controller: for each generic ephemeral volume of a pod it creates a PersistentVolumeClaim,
// which belongs to the pod and is deleted with it.
//
// A program passes what ephemeralvolume.New(ephemeralvolume.Options{}) returns to manager.New. For users, docs/ephemeralvolume.md says what the
// controller does.
package ephemeralvolume
