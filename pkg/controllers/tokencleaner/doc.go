// Package tokencleaner is the token cleaner: it deletes bootstrap tokens that have expired.
//
// A program passes what tokencleaner.New(tokencleaner.Options{}) returns to manager.New. For users,
// docs/tokencleaner.md says what the controller does.
//
// A key is a Secret with a bootstrap token. Plan deletes it when the token has expired, and waits for that
// time otherwise. A token whose expiry cannot be read is deleted, too, and the log says so.
package tokencleaner
