// Package termtest has terms begin (package reconcile) in tests of controllers that have no runner.
//
// A test makes the caches of its controller and passes their term to [Begin]. From then on the term can be read and
// changed.
package termtest
