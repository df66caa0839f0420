// Package identity makes the API clients of the process: one for every name, each with its own user agent and its own
// request limit, so that a busy controller never holds up another (CI-1..8), and, where asked for, with the identity of
// the controller's service account (CI-20..25). It also makes the event recorders (CI-40..46).
//
// [NewBuilder] makes a [Builder] of the configuration that the process was given. Config, Controller, RootController
// and Lease return a configuration for one name each, from which clients are made.
package identity
