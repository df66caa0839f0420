// Package job is the job controller: it creates the pods of a Job, counts those that have ended, and decides when the
// Job is complete or has failed.
//
// A program passes what job.New(job.Options{}) returns to manager.New. For users, docs/job.md says what the
// controller does.
//
// There are two queues. A key of the first is a Job. The planner sorts its pods out once (snapshot.go,
// plan_count.go), adopts and releases pods (plan_claim.go), decides whether the Job ends (plan_end.go,
// plan_policy.go), and creates or deletes pods (plan_create.go, plan_delete.go, plan_backoff.go; for Indexed
// Jobs plan_indexes.go and plan_replace.go). Report writes the status. A key of the second queue is a pod whose
// finalizer no Job would remove (plan_orphans.go).
//
// # How pods are counted
//
// A pod that has ended must be counted exactly once, although its object may be deleted at any time and this process
// may die between any two writes. Two things together make sure of that:
//
//   - Each pod is created with the finalizer batch.kubernetes.io/job-tracking. Until that is removed, the object stays.
//   - status.uncountedTerminatedPods lists the uids of pods that have ended and that the counters do not include yet.
//
// A pod goes through three writes, and nothing else ever changes the counters (JOB-40):
//
//  1. A write of the status adds its uid to the list. It is not listed if it is listed already, or has no finalizer.
//  2. A patch removes the finalizer. It is sent only if the write before was answered with success.
//  3. A write of the status takes the uid from the list and adds one to the counter, in one request. It is sent only
//     if the caches show that the pod has no finalizer any more, or is gone. It is usually also the first write for
//     other pods.
//
// So the state of a pod follows from the objects alone, and a process that dies leaves it to the next one:
//
//	finalizer  listed   the pod
//	yes        no       is not counted; if it has ended, the first write is due
//	yes        yes      will be counted; the second write is due
//	no         yes      will be counted; the third write is due
//	no         no       is counted, or lost the finalizer before it had ended
//
// Each write of the status replaces the object under its resourceVersion, so a decision that was made from an older
// status is never stored. A pod that the cache still shows with its finalizer, although it was counted, would be
// counted again; a pod that it does not show yet, although it is listed, would be counted and then found again.
// Neither happens: a reconcile begins only when the caches show all writes of this process, and after a change of the
// leader, or a write that was not answered, they are compared with the server before the next write. Succeeded pods
// of Indexed Jobs need no list, because status.completedIndexes names what they have done: to add an index twice
// changes nothing.
//
// The finalizer of a pod that has not ended is removed only if the pod shall not be counted: it is surplus, its Job
// is suspended or complete, or it does not belong to the Job any more. That patch has the resourceVersion as a
// precondition, because the pod may have ended meanwhile.
package job
