// Package endpoints answers what the controllers of Endpoints and of EndpointSlices ask of Services and pods: who
// selects a pod, under which address and at which ports it serves, what a change of it means, and how addresses are
// packed into subsets. All functions are pure and leave their arguments alone, but for the metrics of EndpointSlices
// ([SliceMetrics]).
//
// Event handlers call [Enqueued]; planners ask about one pod or service at a time; [PodPaths] are the fields of pods
// that all this reads.
package endpoints
