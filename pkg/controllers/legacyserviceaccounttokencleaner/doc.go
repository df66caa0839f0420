// Package legacyserviceaccounttokencleaner is the legacy token cleaner: it retires the tokens of service
// accounts that early versions of Kubernetes made by themselves, and that nobody has used for long.
//
// A program passes what legacyserviceaccounttokencleaner.New(legacyserviceaccounttokencleaner.Options{})
// returns to manager.New. For users, docs/legacyserviceaccounttokencleaner.md says what the controller does.
//
// There is one key, which is reconciled once a day, and there are no caches: Observe lists live, and stops as
// soon as nothing is left to clean. Plan marks a token as invalid, and deletes it a period later if nobody
// has used it meanwhile.
package legacyserviceaccounttokencleaner
