// Package legacyserviceaccounttokencleaner is the legacy token cleaner: it retires the tokens of service accounts that early versions of
// Kubernetes made by themselves, and that nobody has used for long.
//
// A program passes what legacyserviceaccounttokencleaner.New(legacyserviceaccounttokencleaner.Options{}) returns to manager.New. For users, docs/legacyserviceaccounttokencleaner.md says what the controller does.
package legacyserviceaccounttokencleaner
