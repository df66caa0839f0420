// Package brakes says what the brakes of a manager hold: in the log, and in events of the lease. It tells them when an operator releases
// them by an annotation of the lease.
//
// [New] returns a set, [Set.Add] the brake of one more controller, and [Set.Run] does the rest while the process leads.
package brakes
