// Package endpoint keeps the Endpoints object of each service with a selector: the addresses of the pods that it selects.
//
// A program passes what endpoint.New(endpoint.Options{}) returns to manager.New. For users, docs/endpoint.md says what the controller does.
package endpoint
