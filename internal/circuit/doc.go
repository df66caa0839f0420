// Package circuit has a circuit breaker, which keeps an API that does not answer from holding up the workers that
// others need: an aggregated API server may be down, or the conversion webhook of a custom resource.
//
// A request to an API begins with [Breaker.Begin], which returns an error if it must not be made now, and a function to
// call when it has ended.
package circuit
