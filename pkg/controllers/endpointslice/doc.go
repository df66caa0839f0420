// Package endpointslice keeps the EndpointSlices of each service with a selector: the addresses of the pods
// that it selects, with the ports that they serve, whether they are ready, and where they are.
//
// A program passes what endpointslice.New(endpointslice.Options{}) returns to manager.New. For users,
// docs/endpointslice.md says what the controller does.
//
// A key is a Service. Observe finds its pods and slices; of a large service only what may have changed since
// slices were last compared (plan_checked.go). The planner finds which pods have a place (plan_pods.go). It
// takes one address family after the other (plan_family.go), divides the endpoints into slices with few
// writes (plan_packing.go), and gives hints about zones (plan_hints.go). The memory says which changes writes
// have shown, and what slices were compared with.
package endpointslice
