// Package selinuxwarning is the selinux-warning-controller: it says of which pods not both can have a volume on one
// node, because they want it with different SELinux labels.
//
// A program passes what selinuxwarning.New(selinuxwarning.Options{}) returns to manager.New. For users,
// docs/selinuxwarning.md says what the controller does.
//
// A key is a volume, by the name that nodes have for it. Observe finds the pods that mount it, with their labels and
// policies. Plan compares them, which is pure, and records an event on each of two pods that are in conflict, once.
// The memory has the conflicts that were reported. The term has those of all volumes, for the metrics.
package selinuxwarning
