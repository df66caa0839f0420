// Package rootcacertpublisher is the root CA certificate publisher: each namespace has a ConfigMap with the
// certificate authorities by which its pods verify the API server.
//
// A program passes what rootcacertpublisher.New(rootcacertpublisher.Options{}) returns to manager.New. For
// users, docs/rootcacertpublisher.md says what the controller does.
//
// A key is a Namespace. The authorities come from a file or from the kubeconfig. When the file changes, all
// namespaces are enqueued. Plan creates the ConfigMap, or brings it back to what it should be if it is known
// what is right.
package rootcacertpublisher
