// Package scale looks at the built-in workloads that have a scale: Deployments, ReplicaSets, StatefulSets and ReplicationControllers. It
// tells from the caches what the API server would answer to a request for the scale.
package scale
