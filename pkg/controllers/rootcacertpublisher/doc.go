// Package rootcacertpublisher is the root CA certificate publisher: each namespace has a ConfigMap with the certificate authorities by
// which its pods verify the API server.
//
// A program passes what rootcacertpublisher.New(rootcacertpublisher.Options{}) returns to manager.New. For users, docs/rootcacertpublisher.md says what the controller does.
package rootcacertpublisher
