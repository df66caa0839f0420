// Package explainhttp answers over HTTP, in JSON, why nothing is happening: with the controllers of a process and the
// keys that fail or wait, with the records of a key, and with what a controller sees of a key and would do now.
//
// A [Handler] is given what there is to ask about, and serves /debug/explain, /debug/snapshot and all below. [History]
// serves /debug/history: what is known of objects that are gone.
package explainhttp
