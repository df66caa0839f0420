// Package csrapproving is the controller that approves requests for the client certificates of kubelets, if who asks may have one.
//
// A program passes what csrapproving.New(csrapproving.Options{}) returns to manager.New. For users, docs/csrapproving.md says what the controller does.
package csrapproving
