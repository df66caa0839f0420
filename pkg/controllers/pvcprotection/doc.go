// Package pvcprotection is the persistentvolumeclaim-protection controller: a PersistentVolumeClaim that is deleted stays as long as a pod
// uses it.
//
// A program passes what pvcprotection.New(pvcprotection.Options{}) returns to manager.New. For users, docs/pvcprotection.md says what the controller does.
package pvcprotection
