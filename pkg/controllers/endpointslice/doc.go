// Package endpointslice keeps the EndpointSlices of each service with a selector: the addresses of the pods that it selects, with
// the ports that they serve, whether they are ready, and where they are.
//
// A program passes what endpointslice.New(endpointslice.Options{}) returns to manager.New. For users, docs/endpointslice.md says what the controller does.
package endpointslice
