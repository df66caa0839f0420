// Package endpointslicemirroring mirrors Endpoints that people or programs keep by hand, for services without selector, to
// EndpointSlices.
//
// A program passes what endpointslicemirroring.New(endpointslicemirroring.Options{}) returns to manager.New. For users, docs/endpointslicemirroring.md says what the controller does.
package endpointslicemirroring
