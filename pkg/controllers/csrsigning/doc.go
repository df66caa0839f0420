// Package csrsigning is the controller that issues the certificates of approved requests, for the signers
// that Kubernetes has itself.
//
// A program passes what csrsigning.New(csrsigning.Options{}) returns to manager.New. For users,
// docs/csrsigning.md says what the controller does.
//
// Each signer is a controller of its own, with a queue and workers, so that none holds up another. A key is a
// CertificateSigningRequest. Observe finds it; Plan reads what it asks for and has it signed, or says that it
// can never be signed; and Sign issues the certificate right before the write, with the pair of files as it
// is then. The files are followed while the process runs: the type authority says what signs while one of
// them has been replaced and the other has not.
package csrsigning
