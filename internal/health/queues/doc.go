// Package queues judges how the queues of controllers do, for health checks.
//
// [Stuck] and [Idle] look at what runners tell of their queues ([reconcile.Status]).
package queues
