// Package listwatch lists and watches for the caches.
//
// [NewClient] makes a client that decodes only what the caches keep, and [Client.ListWatch] what an informer needs of
// it. Lists and watches that fail are retried within seconds, their errors are logged at a limited rate, Leases have a
// connection of their own that is read in portions, [Activity] reports whether a watch is alive, and [Rollbacks] notice
// that an API server has gone back to an earlier state.
package listwatch
