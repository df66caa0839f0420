// Package ephemeralvolume is the ephemeral-volume controller: for each generic ephemeral volume of a pod it
// creates a PersistentVolumeClaim, which belongs to the pod and is deleted with it.
//
// A program passes what ephemeralvolume.New(ephemeralvolume.Options{}) returns to manager.New. For users,
// docs/ephemeralvolume.md says what the controller does.
//
// A key is a pod. Observe finds the claims that have the names of those that it needs. Plan creates what is
// missing, and records one event for each claim that has such a name and belongs to somebody else: the memory says
// which those are.
package ephemeralvolume
