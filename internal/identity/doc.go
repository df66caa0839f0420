// Package identity makes the API clients of the process: one for every name, each with its own user agent and its own
// request limit, so that a busy controller never holds up another (CI-1..8), and, where asked for, with the identity of
// the controller's service account (CI-20..25). It also makes the event recorders (CI-40..46).
//
// [NewBuilder] makes a [Builder] of the configuration that the process was given. Config, Controller, RootController
// and Lease return a configuration for one name each, from which clients are made.
//
// The transport of every client that a controller can write with is guarded. When a write is about to leave, after it
// has waited for its turn and for the limiter, the guard waits until the API server is known to be where the caches
// have left it, and asks whether this process still leads. Otherwise the write is not sent.
//
// Caches are filled by the root identity, because the roles of controllers do not let them list what they watch. For
// the same reason it compares caches with the server, and records failures where an account may record no events.
package identity
