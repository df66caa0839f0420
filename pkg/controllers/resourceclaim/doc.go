// Package resourceclaim is the resourceclaim controller: it makes ResourceClaims for pods from templates, and takes
// reservations, allocations and claims away when pods have ended.
//
// A program passes what resourceclaim.New(resourceclaim.Options{}) returns to manager.New. For users,
// docs/resourceclaim.md says what the controller does.
//
// It has two queues, and with the feature gate DRAWorkloadResourceClaims a third one. A key of the first is a pod, and
// of the third a PodGroup: the plan creates the claims that it lacks, and the report records their names in its status.
// A key of the second is a claim, and only that queue writes to claims that exist. Its plan asks for a live read of
// each pod and PodGroup that the cache lacks, before it takes a reservation away.
package resourceclaim
