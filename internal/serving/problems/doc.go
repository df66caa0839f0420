// Package problems keeps the log from being flooded by what each request, or each look at a file, meets again.
//
// Each kind of problem has a name. [Log.Report] logs a problem unless it was logged before, and [Log.Over] says that there is no such
// problem any more, so that the next one is logged.
package problems
