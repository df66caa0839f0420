package attachdetach

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reservations are of volumes for one node at a time of which nodes are only told: no VolumeAttachment says who has one before the status of its
// node does, and workers of two nodes must not choose both. A node has a volume reserved from when it is about to be told of it until it neither
// needs nor lists it.
type reservations struct {
	mu sync.Mutex
	of map[string]string // the node, by the name of the volume
}

// holder returns another node that has an exclusive volume, or gets it before this one. If there is none, this one has it reserved.
func (k *caches) holder(now time.Time, n *corev1.Node, v onNode) (other string) {
	k.reserved.mu.Lock()
	defer k.reserved.mu.Unlock()
	_, by := k.podsNeeding(v.Name)
	for _, one := range k.namersOf(v.Name, by) {
		if one.Node.Name != n.Name && one.has(now, v, k.disableTimeout, k.held(now)) {
			return one.Node.Name
		}
	}
	switch other = k.reserved.of[v.Name]; other {
	case "":
	case n.Name: // its kubelet may have been told of it
		return ""
	default:
		return other
	}
	for _, u := range k.users(by) { // that of the oldest pod has it (AD-80)
		if u.Managed && u.Node != n.Name {
			return u.Node
		}
		if u.Managed {
			break
		}
	}
	if k.proved.Load() {
		if k.reserved.of == nil {
			k.reserved.of = map[string]string{}
		}
		k.reserved.of[v.Name] = n.Name
	}
	return ""
}

// unsure is for how long a node keeps what it has reserved after a write of its status has failed: it may have been carried out nevertheless, and
// the cache does not show it yet.
const unsure = time.Minute

// release ends the reservations of a node for what it neither needs nor lists. n is nil if it is gone, or attaches volumes itself.
func (k *caches) release(now time.Time, name string, n *corev1.Node, volumes []onNode, failed time.Time) {
	k.reserved.mu.Lock()
	defer k.reserved.mu.Unlock()
	kept := map[string]bool{}
	for _, v := range volumes {
		kept[v.Name] = n != nil && v.Told && (v.Pod != "" && v.Others == "" || lists(n, v))
	}
	for volume, node := range k.reserved.of {
		if node == name && !kept[volume] && (n == nil || now.Sub(failed) > unsure) {
			delete(k.reserved.of, volume)
		}
	}
}

// forgetTerm drops what was noted beside the memories of keys.
func (k *caches) forgetTerm() {
	k.forget()
	k.reserved.mu.Lock()
	defer k.reserved.mu.Unlock()
	k.reserved.of = nil
}
