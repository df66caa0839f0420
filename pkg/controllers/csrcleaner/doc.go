// Package csrcleaner is the controller that deletes requests for certificates that nobody needs any more.
//
// A program passes what csrcleaner.New(csrcleaner.Options{}) returns to manager.New. For users, docs/csrcleaner.md says what the controller does.
package csrcleaner
