// Package metadata watches the metadata of resources of any kind, in step with discovery.
//
// A controller subscribes with a handler, and says which resources it wants, or has them discovered
// ([Subscription.Follow]). Nothing is stored but the identities of what a handler knows.
//
// A handler is called while its watch is locked, so that its changes are in order. Of its subscription it calls no
// method but Resources and Synced, because the others take the lock of all informers, which comes before that of a
// watch.
package metadata
