// Package queue is the work queue of a controller: keys with priorities, turns, delays, and exponential backoff. It is a client-go
// workqueue (k8s.io/client-go/util/workqueue), so a key is never processed by two workers at once and its metrics are the
// usual ones, over a storage of its own. Namespaces take turns; in a namespace, keys go by priority, and within a priority owners take turns, so
// that nobody's keys, whatever they are, keep somebody else's waiting. [Slots] bound requests under way, and are handed out by the same turns.
//
// [New] makes a queue, which also registers its metrics. Workers call Get and Done, as with any workqueue; whoever adds a key may say
// how urgent it is, and whose. A [Pool] is a queue with its workers, and knows what each of them is doing: requests that are made with
// the context of a worker are its progress ([Progress]).
package queue
