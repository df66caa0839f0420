// Package csrcleaner is the controller that deletes requests for certificates that nobody needs any more.
//
// A program passes what csrcleaner.New(csrcleaner.Options{}) returns to manager.New. For users,
// docs/csrcleaner.md says what the controller does.
//
// A key is a CertificateSigningRequest. Its status says which of several times it is to be deleted at: some
// time after it was answered, after nobody has answered, or when its certificate has expired. Plan deletes it
// when the first of them has come, and waits for that time otherwise.
package csrcleaner
