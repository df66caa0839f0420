// Package endpointslicemirroring mirrors Endpoints that people or programs keep by hand, for services without
// selector, to EndpointSlices.
//
// A program passes what endpointslicemirroring.New(endpointslicemirroring.Options{}) returns to manager.New.
// For users, docs/endpointslicemirroring.md says what the controller does.
//
// A key is a name: of Endpoints, of a Service, and of the slices that carry its label. Observe finds these,
// and whether the Endpoints are others than before. Plan says which slices there have to be, one for each
// list of ports and address family, and turns the difference into steps. Slices of other controllers are left
// alone.
package endpointslicemirroring
