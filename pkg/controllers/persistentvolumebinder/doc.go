// Package persistentvolumebinder is the persistentvolume-binder controller: it binds PersistentVolumeClaims to
// PersistentVolumes, asks drivers for volumes that do not exist yet, and says of volumes whose claims are gone that
// they are Released.
//
// It has two kinds of keys. A claim is planned together with its volume: the volume that it names, that names it, or
// that fits it best. All four writes that bind the two are one plan. A volume has a key of its own for what no claim
// is there for: that it is Available, Released or Failed. Before it is Released, its claim is read live.
//
// Nothing is looked at by the clock. Indexes by class, mode and size find the volumes that fit a claim, and the
// claims that a volume fits.
//
// A program passes what persistentvolumebinder.New(persistentvolumebinder.Options{}) returns to manager.New. For users,
// docs/persistentvolumebinder.md says what the controller does.
package persistentvolumebinder
