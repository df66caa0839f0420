// Package reply says how a request has ended: to the client, and of what goes wrong, to the log.
//
// [JSON] answers with a value. [Refuse] answers with a Status, which shows programs such as kubectl why a request was
// refused.
//
// [Problems] keep the log from being flooded by what each request, or each look at a file, meets again. Each kind of
// problem has a name. [Problems.Report] logs a problem unless it was logged before, and [Problems.Over] says that there
// is no such problem any more, so that the next one is logged.
package reply
