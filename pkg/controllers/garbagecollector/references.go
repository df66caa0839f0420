package garbagecollector

import (
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manyReferences is from how many owner references on a node has an index of them. An API server sets no limit, and
// nobody's references may cost more than their number.
const manyReferences = 32

// reference is an owner reference that can be compared.
type reference struct {
	apiVersion, kind, name string
	uid                    types.UID
	controller, blocks     flag
}

// flag is an optional bool.
type flag struct{ set, value bool }

func flagOf(b *bool) flag {
	if b == nil {
		return flag{}
	}
	return flag{true, *b}
}

func referenceOf(r metav1.OwnerReference) reference {
	return reference{r.APIVersion, r.Kind, r.Name, r.UID, flagOf(r.Controller), flagOf(r.BlockOwnerDeletion)}
}

// sameReferences reports whether two lists say the same in the same order.
func sameReferences(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.OwnerReference) bool { return referenceOf(x) == referenceOf(y) })
}

// uidsOf returns the uids to which the references that count refer.
func uidsOf(refs []metav1.OwnerReference, counts func(metav1.OwnerReference) bool) map[types.UID]bool {
	all := make(map[types.UID]bool, len(refs))
	for _, ref := range refs {
		if counts == nil || counts(ref) {
			all[ref.UID] = true
		}
	}
	return all
}

// setOwners notes the references of a node.
func (n *node) setOwners(refs []metav1.OwnerReference) {
	n.owners, n.byUID = refs, nil
	if len(refs) < manyReferences {
		return
	}
	n.byUID = make(map[types.UID][]int, len(refs))
	for i, ref := range refs {
		n.byUID[ref.UID] = append(n.byUID[ref.UID], i)
	}
}

// refsTo are the references of a node to a uid.
func (n *node) refsTo(uid types.UID) iter.Seq[metav1.OwnerReference] {
	return func(yield func(metav1.OwnerReference) bool) {
		if n.byUID != nil {
			for _, i := range n.byUID[uid] {
				if !yield(n.owners[i]) {
					return
				}
			}
			return
		}
		for _, ref := range n.owners {
			if ref.UID == uid && !yield(ref) {
				return
			}
		}
	}
}

// hasRef reports whether a node has a reference to a uid that matches.
func (n *node) hasRef(uid types.UID, matches func(metav1.OwnerReference) bool) bool {
	for ref := range n.refsTo(uid) {
		if matches(ref) {
			return true
		}
	}
	return false
}

// refersTo reports whether a node has a reference to the owner.
func (n *node) refersTo(owner *node) bool {
	return n.hasRef(owner.uid, func(ref metav1.OwnerReference) bool { return owner.matches(n, ref) })
}

// blocksUID reports whether a node has a blocking reference to a uid.
func (n *node) blocksUID(uid types.UID) bool { return n.hasRef(uid, blocks) }

// blocksOwner reports whether a node has a blocking reference to the owner.
func (n *node) blocksOwner(owner *node) bool {
	return n.hasRef(owner.uid, func(ref metav1.OwnerReference) bool { return blocks(ref) && owner.matches(n, ref) })
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}
