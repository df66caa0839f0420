// Package serviceaccount is the serviceaccount controller: each namespace has a ServiceAccount called
// default, without which no pod can be created in it.
//
// A program passes what serviceaccount.New(serviceaccount.Options{}) returns to manager.New. For users,
// docs/serviceaccount.md says what the controller does.
//
// A key is a Namespace. Plan creates the account if it is missing and the namespace is not about to end. It
// is one of the shortest controllers with a planner of its own, and a good one to read first.
package serviceaccount
