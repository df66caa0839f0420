// Package resourcequota is the resourcequota controller. It says in the status of quotas what the objects of their
// namespaces use. Admission of the API server enforces the quotas: it raises what is used before an object is stored.
// The controller lowers it again when objects are gone.
//
// A program passes what resourcequota.New(resourcequota.Options{}) returns to manager.New. For users,
// docs/resourcequota.md says what the controller does.
//
// # How usage is counted
//
// Watches keep sums for each namespace, resource and choice of scopes, so that a change of one object costs the same
// however many there are. Only what some quota names is watched. Pods, Services and claims are watched whole and kept
// as what they are charged with; of everything else the caches of metadata are shared with other controllers.
//
// # When usage may be lowered
//
// Admission raises the usage first, and the object is stored and shown by a watch later. Whoever counts in between
// finds too little. So each increase that the watch of the quota shows is remembered as a reservation, until the
// watch of the objects shows an object that is newer than the increase and accounts for it. What is written is never
// less than what is counted and reserved together. A reservation whose object never comes, because the creation has
// failed after its admission, ends after a minute, which is the longest that an API server works on a request with
// its default --request-timeout.
package resourcequota
