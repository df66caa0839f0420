// Package bootstraptoken reads the Secrets in which bootstrap tokens are kept, as far as several controllers ask for
// the same.
//
// A controller caches what [Selector] selects, with [Fields], and asks [Is], [Expiration] and [Expired].
package bootstraptoken
