// Package serviceaccounttoken is the serviceaccount-token controller: it puts tokens into the Secrets that ask for one, and deletes these
// Secrets together with their ServiceAccounts.
//
// A program passes what serviceaccounttoken.New(serviceaccounttoken.Options{}) returns to manager.New. For users, docs/serviceaccounttoken.md says what the controller does.
package serviceaccounttoken
