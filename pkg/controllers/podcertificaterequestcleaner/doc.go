// Package podcertificaterequestcleaner is the controller that deletes requests for the certificates of pods some time
// after they were made.
//
// A program passes what podcertificaterequestcleaner.New(podcertificaterequestcleaner.Options{}) returns to
// manager.New. For users, docs/podcertificaterequestcleaner.md says what the controller does.
//
// A key is a PodCertificateRequest. Nothing but its age counts: a kubelet has taken the certificate long before, or has
// given the request up. Plan deletes it when its time has come, and waits for that time otherwise.
package podcertificaterequestcleaner
