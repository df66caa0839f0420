// Package ttlafterfinished is the ttl-after-finished controller: it deletes Jobs some time after they have finished, if they ask for that.
//
// A program passes what ttlafterfinished.New(ttlafterfinished.Options{}) returns to manager.New. For users, docs/ttlafterfinished.md says what the controller does.
package ttlafterfinished
