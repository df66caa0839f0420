// Package apis reports which APIs a server serves. Not every API server has every API: one may be off by default, of a
// later version of Kubernetes, or a custom resource whose definition is not installed, or was deleted.
//
// [APIs] asks discovery for the versions of groups that somebody follows, each on a schedule of its own: every five
// minutes, every half a minute while something is missing, and at once when a list or a watch does not find its
// resource. An answer that says that there is no such version, or no such resource in it, is the only one that makes an
// API missing: while discovery fails, as for an aggregated API server that is down, the last answer counts, and without
// one nothing is missing.
//
// [APIs.While] runs a controller while nothing that it needs is missing. A [Gate] holds back the lists and watches of
// a cache meanwhile, and knows whether the cache has been listed since. When the API returns, the cache is listed anew,
// and the controller is run again, as in a new term.
package apis
