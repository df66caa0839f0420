// Package serving is the manager's own HTTPS server: who may ask it for what, how much it takes from clients, and the pages
// that are not about health or metrics (MH-1..14, CLI-30..41).
//
// Who asks is found out by the authenticators of k8s.io/apiserver and by TokenReviews; whether they may, by a list of paths
// and by SubjectAccessReviews. Certificates and authorities are read again every few seconds while the server runs. One
// goroutine reads them; what it found is swapped in whole, so that no request sees half a change.
package serving
