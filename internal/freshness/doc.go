// Package freshness reports whether caches show what this process has written, and what it has learned that others
// wrote. It takes the place of expectations (RS-36..40): what was written is waited for by resourceVersion and uid.
// There is no time limit after which a stale cache would be accepted.
//
// A process has one [Tracker], which records each write. A reconcile has a [Barrier]: it knows what to wait for, and
// Check says whether the caches show it.
//
// Writers of one object within the process take turns by the Tracker, and each of them learns which version the others
// have written. So two controllers of one process, such as those that write the size and the status of a ReplicaSet, do
// not conflict. The Tracker also remembers what the process has deleted until the caches show it: the Deployment
// controller does not count a pod that the ReplicaSet controller has just deleted.
package freshness
