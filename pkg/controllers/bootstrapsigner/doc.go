// Package bootstrapsigner is the bootstrap signer: it signs the public ConfigMap cluster-info with each
// bootstrap token, so that who knows a token can trust what the ConfigMap says of the cluster.
//
// A program passes what bootstrapsigner.New(bootstrapsigner.Options{}) returns to manager.New. For users,
// docs/bootstrapsigner.md says what the controller does.
//
// There is one key, the ConfigMap. Each change of it or of a bootstrap token enqueues that. Observe finds out
// which tokens may sign and whether they have; Plan names the tokens whose signature is missing; and Sign
// makes the signatures right before the write, so that no snapshot holds a token.
package bootstrapsigner
