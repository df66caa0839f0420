// Package csrsigning is the controller that issues the certificates of approved requests, for the signers that Kubernetes has itself.
//
// A program passes what csrsigning.New(csrsigning.Options{}) returns to manager.New. For users, docs/csrsigning.md says what the controller does.
package csrsigning
