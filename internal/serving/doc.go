// Package serving is the manager's own HTTPS server: how connections are secured, how much it takes from clients, and
// what each request goes through (MH-1..4, CLI-30..41).
//
// [New] returns a server that listens already, and [Server.Run] serves the handlers that it is given. Who asks is
// found out by the authenticators of k8s.io/apiserver and by TokenReviews; whether they may, by a list of paths and
// by SubjectAccessReviews (package access). Certificates and authorities are read again every few seconds while the
// server runs (package certificates). One goroutine reads them; what it found is swapped in whole, so that no request
// sees half a change.
//
// The pages that are not about health or metrics are in package pages.
package serving
