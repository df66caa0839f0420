// Package resourcepoolstatusrequest is the resourcepoolstatusrequest controller: it answers ResourcePoolStatusRequests,
// which ask how many devices of a driver's pools are free.
//
// A program passes what resourcepoolstatusrequest.New(resourcepoolstatusrequest.Options{}) returns to manager.New. For
// users, docs/resourcepoolstatusrequest.md says what the controller does.
//
// A key is a request. Observe gathers the ResourceSlices of the driver, which devices ResourceClaims have, and the
// DeviceTaintRules. Plan counts, and Report writes the answer, once. What is counted is no older than the request: if
// the caches do not show that within a second, the plan asks for live lists. Later Plan deletes the request.
package resourcepoolstatusrequest
