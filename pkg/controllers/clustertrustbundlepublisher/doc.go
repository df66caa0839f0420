// Package clustertrustbundlepublisher is the controller that publishes the certificate authorities by which the API
// server is verified as a ClusterTrustBundle, which pods can mount.
//
// A program passes what clustertrustbundlepublisher.New(clustertrustbundlepublisher.Options{}) returns to manager.New.
// For users, docs/clustertrustbundlepublisher.md says what the controller does.
//
// There is one key, which stands for all bundles of the signer. The authorities come from a file or from the
// kubeconfig. When the file changes, or a bundle of the signer does, the key is enqueued. Plan creates the bundle that
// is called after its content, or brings it back to that, and deletes the others if it is known what is right.
package clustertrustbundlepublisher
