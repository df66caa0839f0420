// Package metadata watches the metadata of resources of any kind, in step with discovery.
//
// A controller subscribes with a handler, and says which resources it wants, or has them discovered
// ([Subscription.Follow]). Nothing is stored but the identities of what a handler knows.
package metadata
