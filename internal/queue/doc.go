// Package queue is the work queue of a controller: keys with priorities, turns, delays, and exponential backoff. It
// is a client-go workqueue (k8s.io/client-go/util/workqueue), so a key is never processed by two workers at once and
// its metrics are the usual ones, over a storage of its own.
//
// [New] makes a queue, which also registers its metrics. Workers call Get and Done, as with any workqueue; whoever
// adds a key may say how urgent it is, and whose. A [Pool] is a queue with its workers, and knows what each of them
// is doing: requests that are made with the context of a worker are its progress ([Progress]). [Slots] bound requests
// under way, and are handed out by the same turns.
//
// # Turns
//
// Each namespace that has keys is one line, and the lines are served one key at a time, whatever the priority of the
// keys is. In a namespace, keys go by priority. Of work in progress the oldest goes first, because a rollout that is
// finished is worth more than two that are halfway. Of the other priorities, the keys of each owner are a line, and
// these lines take turns as well: the Jobs of one CronJob do not keep those of another one waiting. Keys without an
// owner are one line together. Every sixteenth turn of a namespace is that of the key that has waited longest in it.
//
// So a key waits for a time that follows from what its own namespace has queued, and from how many namespaces have
// something queued, and not from how much they have. Nor does it follow from how long the keys of others take: while
// another namespace waits, none is given more than half of the workers or slots. What it was given before, while nobody
// waited, is left to it, but what is beyond its half does not count. So a pool has half as many workers again, which
// sleep unless that happens.
//
// Keys without namespace, such as those of namespaces and nodes, are one line. If one of them makes no progress for
// three seconds while others wait for a worker, it is given up ([ErrGivenUp]). Its next tries are in a line of their
// own, with at most half of the workers and slots, until one of them goes on without a pause.
//
// A turn costs the same with 100 keys as with 10,000.
package queue
