// Package scale looks at the built-in workloads that have a scale: Deployments, ReplicaSets, StatefulSets and
// ReplicationControllers. It answers from the caches what the API server would answer to a request for the scale.
//
// A controller calls [NewCaches] in its Init, and Get finds a workload. [Of] is the same view of an object that is at
// hand.
package scale
