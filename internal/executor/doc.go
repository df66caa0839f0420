// Package executor carries out plans (see package plan). It is the one place that writes for the controllers.
//
// A process has an [Executor] for each controller, made by [New]. For each reconcile, Begin returns a [Writing], whose
// Apply carries out the steps of a plan. The outcome says what became of each write.
//
// # Guards
//
// Steps are carried out in order until one fails. The executor refuses what no plan may ask for: a write to an object
// that the owner of the plan does not control, and a second write to an object, or to its status, in one reconcile. An
// object and its status are two writes; the second goes with the version that the server has returned to the first. A
// change passes the list of guards before it is sent: it takes a slot, then the lock of its object, and is not sent if
// this process has written or seen a later version. Before the first adoption of a reconcile the owner is read live.
// Every deletion has the uid as a precondition. A change without a difference is not sent, unless it is a touch.
//
// After a step of more than a second, the steps that follow are planned anew. Of more than 32 writes, those that wait
// take turns as keys do in package queue.
//
// # Answers
//
// What the server has answered closes the barrier of the key (package freshness). A write that was not answered makes
// the key unverified. A request that the server puts off (429) is not repeated here: the key is reconciled again. When
// an admission webhook answers so, or with 404 or 409, that is a refusal.
//
// An admission webhook may undo a change, so that the same one is asked for again. It is then left out for a while,
// twice as long each time, and all else goes on. A creation that came back with labels that its selector does not match
// has failed, and the next one of that owner waits likewise. When a key has failed for long, [Writing.RecordFailure]
// records an event about it, unless the step had one.
package executor
