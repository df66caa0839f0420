// Package podgroupprotection is the podgroup-protection controller: a PodGroup that is deleted stays as long as a pod
// of it may run, and a CompositePodGroup as long as a group names it as its parent.
//
// A program passes what podgroupprotection.New(podgroupprotection.Options{}) returns to manager.New. For users,
// docs/podgroupprotection.md says what the controller does.
//
// A key is a group, of one kind or the other: both have a queue, and their own members that keep them. Observe finds by
// indexes who keeps a group that is being deleted. Plan takes the finalizer off when nobody does. The caches have to
// show a state that is later than the deletion. If they do not within a second, the plan asks for live lists.
package podgroupprotection
