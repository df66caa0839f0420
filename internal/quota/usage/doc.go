// Package usage keeps an index of what the objects of each namespace are charged with in quotas, and the sums of that.
//
// [New] makes an [Index]. It works while [Index.Run] does: it follows the quotas, watches what they limit and nothing
// else, and enqueues the quotas whose sums have changed. [Index.Count] returns a sum, [Index.States] reports which
// resources are known so far that it is right, and [Index.Compare] compares what is known of a namespace with the
// server. What an object is charged with is for package quota to say.
//
// An Index has locks of its own, which are taken in this order: that of the counter of a resource, that of the watches,
// that of the devices, that of the [sums.Sums].
package usage
