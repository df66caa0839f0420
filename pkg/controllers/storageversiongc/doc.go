// Package storageversiongc is the controller that drops what StorageVersions say of API servers that are gone.
//
// A program passes what storageversiongc.New(storageversiongc.Options{}) returns to manager.New. For users,
// docs/storageversiongc.md says what the controller does.
//
// A key is a StorageVersion: in which version each API server stores the objects of a resource. An API server is there
// as long as its Lease is. Plan asks for a live read of each Lease that the cache does not show, and drops the entries
// of those that are gone, in a write that only succeeds if nobody has changed the StorageVersion meanwhile.
package storageversiongc
