// Package ttlafterfinished is the ttl-after-finished controller: it deletes Jobs some time after they have
// finished, if they ask for that.
//
// A program passes what ttlafterfinished.New(ttlafterfinished.Options{}) returns to manager.New. For users,
// docs/ttlafterfinished.md says what the controller does.
//
// A key is a Job that has finished and has a time to live. Plan deletes it when that is over, and waits
// otherwise. If the time at which the Job has finished is doubtful, the log says so once: that is what the
// memory is for.
package ttlafterfinished
