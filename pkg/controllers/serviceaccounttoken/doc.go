// Package serviceaccounttoken is the serviceaccount-token controller: it puts tokens into the Secrets that
// ask for one, and deletes these Secrets together with their ServiceAccounts.
//
// A program passes what serviceaccounttoken.New(serviceaccounttoken.Options{}) returns to manager.New. For
// users, docs/serviceaccounttoken.md says what the controller does.
//
// A key is a Secret of the type for tokens. Observe finds its ServiceAccount, and which data it lacks. Before
// a Secret is deleted, because its account is gone, Plan asks for a live read of the account. What the Secret
// lacks is only named: Sign makes the token right before the write, so that no snapshot or plan holds one.
package serviceaccounttoken
