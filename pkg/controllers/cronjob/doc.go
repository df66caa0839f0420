// Package cronjob is the cronjob controller: it creates Jobs at the times of a schedule, and deletes the oldest of those that have
// finished.
//
// A program passes what cronjob.New(cronjob.Options{}) returns to manager.New. For users, docs/cronjob.md says what the controller does.
package cronjob
