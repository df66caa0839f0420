// Package pvcprotection is the persistentvolumeclaim-protection controller: a PersistentVolumeClaim that is
// deleted stays as long as a pod uses it.
//
// A program passes what pvcprotection.New(pvcprotection.Options{}) returns to manager.New. For users,
// docs/pvcprotection.md says what the controller does.
//
// A key is a namespace: the plan asks for one live list of its pods, which is the proof for all its claims
// that are to go. If the gate PersistentVolumeClaimUnusedSinceTime is on, there is a second queue. A key of
// that is a claim, whose condition Unused says whether a pod uses it. There the cache decides, because
// nothing is deleted.
package pvcprotection
