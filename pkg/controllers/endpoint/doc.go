// Package endpoint keeps the Endpoints object of each service with a selector: the addresses of the pods that
// it selects.
//
// A program passes what endpoint.New(endpoint.Options{}) returns to manager.New. For users, docs/endpoint.md
// says what the controller does.
//
// A key is a Service. Changes of pods enqueue the services that select them, after a batch period. Observe
// finds the Endpoints and the pods; of a large service only those that have changed, beside what the memory
// says of the others. Plan makes the subsets and writes them if they differ. The files are floors of that:
// plan_pods.go turns pods into entries, plan.go entries into subsets, and plan_fitting.go chooses what is
// left where an object has no room for all.
package endpoint
