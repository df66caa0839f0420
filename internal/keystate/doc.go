// Package keystate is what a runner remembers of its keys between two reconciles: whether their caches can be trusted,
// how often they have failed, when they may be reconciled again, which report waits, and what their controller
// remembers.
//
// [New] makes the [States] of a controller. Event handlers and workers report to them what happens to a key, see
// [State].
package keystate
