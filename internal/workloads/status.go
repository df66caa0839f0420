package workloads

import (
	"time"

	"k8s.io/utils/ptr"
)

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ReportedTerminating returns the terminatingReplicas of a status, for the comparison with what is to be reported. A
// server that does not know the field drops it: a zero that is missing there is not worth a write, which would change
// nothing, at every reconcile.
func ReportedTerminating(before, after *int32) *int32 {
	if before == nil && ptr.Deref(after, 0) == 0 {
		return after
	}
	return before
}
