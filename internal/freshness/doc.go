// Package freshness reports whether caches show what this process has written, and what it has learned that others
// wrote. It takes the place of expectations (RS-36..40): what was written is waited for by resourceVersion and uid.
// There is no time limit after which a stale cache would be accepted.
//
// A process has one [Tracker], which records each write. A reconcile has a [Barrier]: it knows what to wait for, and
// Check says whether the caches show it.
package freshness
