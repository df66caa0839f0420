// Package serviceaccount is the serviceaccount controller: each namespace has a ServiceAccount called default, without which no pod
// can be created in it.
//
// A program passes what serviceaccount.New(serviceaccount.Options{}) returns to manager.New. For users, docs/serviceaccount.md says what the controller does.
package serviceaccount
