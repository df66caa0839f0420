// Package cronjob is the cronjob controller: it creates Jobs at the times of a schedule, and deletes the
// oldest of those that have finished.
//
// A program passes what cronjob.New(cronjob.Options{}) returns to manager.New. For users, docs/cronjob.md
// says what the controller does.
//
// A key is a CronJob. It is reconciled when it or one of its Jobs has changed, and when its schedule brings
// something. Observe finds the Jobs, of which it reads live those that the status names and the cache lacks.
// The function decide works out what is due. Plan turns that into steps: warnings, the Job, and deletions
// beyond the history limits. Report writes which Jobs are active. The files plan_schedule.go and plan_jobs.go
// have what is to be known of schedules, and of Jobs.
package cronjob
