// Package election makes what takes part in the election of a leader, with the clients that it needs.
//
// [New] returns an elector of package leaderelection, which has to be run.
package election
