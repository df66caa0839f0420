// Package listwatch lists and watches for the caches.
//
// [NewClient] makes a client that decodes only what the caches keep, and [Client.ListWatch] what an informer needs of
// it. Lists and watches that fail are retried within seconds, their errors are logged at a limited rate, and [Activity]
// says whether a watch is alive: a bookmark a minute is the only sign of life in a quiet cluster.
//
// # Leases
//
// Nodes renew their Leases all the time, 500 a second on 5000 nodes. Their watch has a connection of its own that is
// read every 100 ms at most: to be woken for each renewal cost three times as much.
//
// # When an API server goes back
//
// An API server can go back to an earlier state: its storage is restored from a backup, or it now reads from a replica
// that lacks the latest writes. What was remembered then means something else, or nothing: resource versions, uids,
// objects that are known to be gone. A watch from a version that the server has not reached is no error, and stays
// silent. Therefore a cache whose watch was cut reads the version of its resource, consistently, before it opens the
// next watch ([Rollbacks]). After a cut, no write is sent before one such read has shown the latest version that any
// cache has seen ([Client.Continuous]); this read takes place when there is a write. Caches of metadata of resources
// that are not part of Kubernetes are only listed anew: an aggregated API server may count from one after each of its
// restarts.
package listwatch
