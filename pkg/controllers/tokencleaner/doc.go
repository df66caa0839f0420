// Package tokencleaner is the token cleaner: it deletes bootstrap tokens that have expired.
//
// A program passes what tokencleaner.New(tokencleaner.Options{}) returns to manager.New. For users, docs/tokencleaner.md says what the controller does.
package tokencleaner
