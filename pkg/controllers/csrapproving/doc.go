// Package csrapproving is the controller that approves requests for the client certificates of kubelets, if
// who asks may have one.
//
// A program passes what csrapproving.New(csrapproving.Options{}) returns to manager.New. For users,
// docs/csrapproving.md says what the controller does.
//
// A key is a CertificateSigningRequest. Observe asks the API server by SubjectAccessReviews whether who has
// made the request may have the certificate. Plan approves it then. A request that is refused is asked about
// again, ever more rarely: the memory says when.
package csrapproving
