// Package bootstrapsigner is the bootstrap signer: it signs the public ConfigMap cluster-info with each bootstrap token, so that who knows a
// token can trust what the ConfigMap says of the cluster.
//
// A program passes what bootstrapsigner.New(bootstrapsigner.Options{}) returns to manager.New. For users, docs/bootstrapsigner.md says what the controller does.
package bootstrapsigner
